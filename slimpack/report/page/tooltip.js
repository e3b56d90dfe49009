// What is known of a span, beside the pointer.

const MOST_SLICES = 8;

/** "document 812 [0, 4096)", or the step's own number of the sequence where no document is known. */
function sliceText([sequence, begin, end], documents) {
  const [name, before] = documents ? [`document ${documents[sequence][0]}`, documents[sequence][1]] : [`sequence ${sequence}`, 0];
  return `${name} [${grouped(before + begin)}, ${grouped(before + end)})`;
}

function tooltipRows(span) {
  const rows = [["on", span.label]];
  if (span.label.includes("rank")) rows.push(["stage", span.stage]); // a rank of several stages
  rows.push(["starts at", moment(span.start)], ["takes", duration(span.length)]);
  if (span.predicted >= 0 && span.origin !== "predicted") rows.push(["predicted", duration(span.predicted)]);
  rows.push(["activations", bytes(span.memory)]);
  return rows;
}

function showTooltip(span, event, documents) {
  const box = document.getElementById("tooltip");
  box.hidden = span === null;
  if (span === null) return;
  const list = element("dl");
  for (const [what, value] of tooltipRows(span)) list.append(element("dt", "", what), element("dd", "", value));
  const pack = span.pack >= 0 ? `, MicroPack ${span.pack}` : "";
  box.replaceChildren(element("b", "", `${span.kind.title}${pack}`), list);
  if (span.slices) box.append(sliceList(span.slices, documents));
  const right = event.clientX + 16 + box.offsetWidth > innerWidth;
  const below = event.clientY + 16 + box.offsetHeight > innerHeight;
  box.style.left = `${Math.max(4, right ? event.clientX - 12 - box.offsetWidth : event.clientX + 16)}px`;
  box.style.top = `${Math.max(4, below ? event.clientY - 12 - box.offsetHeight : event.clientY + 16)}px`;
}

function sliceList(slices, documents) {
  const list = element("ul");
  for (const slice of slices.slice(0, MOST_SLICES)) list.append(element("li", "", sliceText(slice, documents)));
  if (slices.length > MOST_SLICES) list.append(element("li", "", `and ${slices.length - MOST_SLICES} more slices`));
  return list;
}
