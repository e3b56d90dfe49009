// Colours. They come from the style sheet, which knows light, dark and print.

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Calls `redraw` when colours change: for dark and light, and before and after printing. */
function onSchemeChange(redraw) {
  for (const query of ["(prefers-color-scheme: dark)", "print"])
    matchMedia(query).addEventListener("change", redraw);
}

/** Makes an element: its class, its text, and what is inside. */
function element(tag, className, text, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined && text !== null) made.textContent = text;
  made.append(...children);
  return made;
}
