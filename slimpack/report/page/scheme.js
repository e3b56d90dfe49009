// Colours. They come from the style sheet, which knows light, dark and print.

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Calls `redraw` when colours change: for dark and light, and before and after printing. */
function onSchemeChange(redraw) {
  for (const query of ["(prefers-color-scheme: dark)", "print"])
    matchMedia(query).addEventListener("change", redraw);
}

/** A colour for stage `i` of `count`: from the first to the last one, from violet over green to yellow. */
function stageColour(i, count) {
  const ramp = ["#5b2a86", "#3b528b", "#21918c", "#4fb85e", "#c9b01c"];
  const dark = ["#b18be0", "#6f93e0", "#35b7ae", "#7fd65a", "#f2e34c"];
  const colours = colour("page") === "#ffffff" ? ramp : dark;
  const place = count < 2 ? 1 : (i / (count - 1)) * (colours.length - 1);
  const low = Math.min(Math.floor(place), colours.length - 2);
  return mixed(colours[low], colours[low + 1], place - low);
}

function mixed(a, b, part) {
  const channel = (hex, at) => parseInt(hex.slice(at, at + 2), 16);
  const mix = (at) => Math.round(channel(a, at) * (1 - part) + channel(b, at) * part);
  return `rgb(${mix(1)}, ${mix(3)}, ${mix(5)})`;
}

/** Makes an element: its class, its text, and what is inside. */
function element(tag, className, text, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined && text !== null) made.textContent = text;
  made.append(...children);
  return made;
}
