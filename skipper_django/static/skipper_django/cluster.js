"use strict";
// Refreshes the parts of the Cluster page that have changed. An XMLHttpRequest parses the answer
// itself, so that this also works where a policy demands Trusted Types.
(() => {
    const root = document.getElementById("skipper-cluster");
    if (!root) {
        return;
    }
    const role = (name) => root.querySelector(`[data-role="${name}"]`);
    const [trouble, pause] = [role("trouble"), role("pause")];
    const seconds = Number(root.dataset.seconds) || 5;
    let timer = null;
    let request = null;
    let failures = 0;
    let paused = false;

    const say = (text) => {
        if (trouble.textContent !== text) {
            trouble.textContent = text;
        }
        trouble.hidden = text === "";
    };

    const isSelecting = () => {
        const selection = document.getSelection();
        return selection && !selection.isCollapsed && root.contains(selection.anchorNode);
    };

    const show = (fresh) => {
        if (isSelecting()) {
            return;
        }
        for (const part of root.querySelectorAll("[data-part]")) {
            const other = fresh.querySelector(`[data-part="${part.dataset.part}"]`);
            if (other && !part.isEqualNode(other)) {
                part.replaceChildren(...document.importNode(other, true).childNodes);
            }
        }
    };

    const later = () => {
        clearTimeout(timer);
        if (!paused && !document.hidden) {
            timer = setTimeout(refresh, seconds * 1000 * Math.min(2 ** failures, 12));
        }
    };

    const ended = () => {
        const url = new URL(request.responseURL || root.dataset.url, location.href);
        const fresh = request.status === 200 ? request.response : null;
        request = null;
        if (fresh && fresh.querySelector("[data-part]")) {
            failures = 0;
            say("");
            show(fresh);
        } else {
            failures += 1;
            const moved = !url.pathname.endsWith(`/${root.dataset.url}`);
            say(fresh && moved ? root.dataset.signedOut : root.dataset.trouble);
        }
        later();
    };

    function refresh() {
        if (request) {
            return;
        }
        request = new XMLHttpRequest();
        request.open("GET", root.dataset.url + location.search);
        request.responseType = "document";
        request.timeout = 15000;
        request.onloadend = ended;
        request.send();
    }

    pause.hidden = false;
    pause.addEventListener("click", () => {
        paused = !paused;
        pause.textContent = paused ? root.dataset.resume : root.dataset.pause;
        if (paused) {
            clearTimeout(timer);
        } else {
            refresh();
        }
    });
    role("reload").addEventListener("click", (event) => {
        event.preventDefault();
        refresh();
    });
    document.addEventListener("visibilitychange", () => {
        clearTimeout(timer);
        if (!document.hidden && !paused) {
            refresh();
        }
    });
    later();
})();
