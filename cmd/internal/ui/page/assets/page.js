// The page is whole without this file. With it, sections are replaced as they change, in place of a refresh of all.
"use strict";

const updates = document.body.dataset.updates;
const held = new Map();

function connection(text, state) {
  const element = document.getElementById("connection");
  if (!element) return;
  if (element.textContent !== text) element.textContent = text;
  element.className = state;
}

// selected reports whether somebody has marked text in an element.
function selected(element) {
  const selection = document.getSelection();
  return selection && !selection.isCollapsed && element.contains(selection.anchorNode);
}

// position identifies a link or field in its section, so that the focus outlives the section's replacement.
function position(section, element) {
  return section.contains(element) ? [...section.querySelectorAll("a, input")].indexOf(element) : -1;
}

function replace(id, html) {
  const section = document.getElementById(id);
  if (!section) return;
  if (selected(section)) {
    held.set(id, html);
    return;
  }
  held.delete(id);
  const focus = position(section, document.activeElement);
  section.innerHTML = html;
  if (focus >= 0) section.querySelectorAll("a, input")[focus]?.focus({preventScroll: true});
  const title = section.querySelector("[data-title]");
  if (title) document.title = title.dataset.title;
}

document.addEventListener("selectionchange", () => {
  for (const [id, html] of held) replace(id, html);
});

// A browser has at most six connections to a server, for all its windows: one that nobody looks at has none.
let source;

function follow() {
  if (document.hidden) {
    source?.close();
    source = undefined;
    connection("paused", "");
    return;
  }
  if (source) return;
  source = new EventSource(updates);
  source.onopen = () => connection("● live", "live");
  source.onerror = (event) => connection(event.target.readyState === EventSource.CLOSED ? "closed: run poolwright ui again" : "reconnecting …", "lost");
  for (const element of document.querySelectorAll("#status, section[id]")) {
    source.addEventListener(element.id, (event) => replace(element.id, event.data));
  }
}

if (updates) {
  document.addEventListener("visibilitychange", follow);
  follow();
}
