"""path("skipper/admin/", include("skipper_django.urls"))"""

from django.urls import path

from .views import cluster

app_name = "skipper_django"
urlpatterns = [path("cluster", cluster, name="cluster")]
