// Light and dark, navigation, printing.
const stored = { get: () => { try { return localStorage.getItem("polarised-theme"); } catch { return null; } }, set: (v) => { try { localStorage.setItem("polarised-theme", v); } catch { /* a page from disk may have no storage */ } } };
const root = document.documentElement;
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
if (stored.get()) root.dataset.theme = stored.get();
find("#theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  stored.set(root.dataset.theme);
  redraws.forEach((redraw) => redraw());
});
find("#print").addEventListener("click", () => print());
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    for (const link of all("#sections a")) {
      if (link.getAttribute("href") === `#${entry.target.id}`) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }
}, { rootMargin: "-20% 0px -70% 0px" });
function navigate() {
  const sections = all("main section[id]:not([hidden])").filter((section) => section.dataset.short);
  find("#sections").replaceChildren(...sections.map((s) => html("li", {}, html("a", { href: `#${s.id}` }, s.dataset.short))));
  observer.disconnect();
  for (const section of sections) observer.observe(section);
}
// A table larger than its frame has a hint above it and a faded edge.
function hintScroll() {
  for (const frame of all(".scroll")) {
    const hidden = frame.scrollWidth - frame.clientWidth, below = frame.scrollHeight - frame.clientHeight;
    if (!frame.scrollHint) {
      frame.scrollHint = html("p", { class: "note scroll-hint", "aria-hidden": "true" });
      frame.before(frame.scrollHint);
      frame.addEventListener("scroll", hintScroll, { passive: true });
    }
    frame.scrollHint.hidden = hidden < 4 && below < 4;
    frame.scrollHint.textContent = hidden >= 4 ? (below >= 4 ? "Scroll the table right and down for more." : "Scroll the table right for more →") : "Scroll the table down for more ↓";
    frame.classList.toggle("more", hidden >= 4 && frame.scrollLeft < hidden - 4);
  }
}
redraws.push(() => setTimeout(hintScroll, 0));
