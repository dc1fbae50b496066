// Finds the texts of a page that overlap or are cut; the last expression's value is what the test reads.
(async () => {
  await new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)));
  const hides = how => how == "hidden" || how == "clip"; // what scrolls can be read
  const broken = [], boxes = [], view = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > view) broken.push("the page is " + document.documentElement.scrollWidth + " px wide");
  const walk = document.createTreeWalker(document.querySelector(":popover-open") || document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode());) {
    const el = node.parentElement;
    if (!node.data.trim() || el.closest("script, style, [popover]:not(:popover-open), details:not([open]) > :not(summary)") || !el.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects()) {
      if (r.width < 1 || r.height < 1) continue;
      const name = node.data.trim().slice(0, 60);
      if (r.left < -1 || r.right > view + 1) broken.push("cut at the window's edge: " + name);
      for (let up = el; up && up != document.body; up = up.parentElement) {
        const style = getComputedStyle(up), box = up.getBoundingClientRect();
        if (hides(style.overflowX) && (r.right > box.right + 1 || r.left < box.left - 1) ||
          hides(style.overflowY) && (r.bottom > box.bottom + 1 || r.top < box.top - 1)) broken.push("cut: " + name);
      }
      boxes.push({ r, name, el });
    }
  }
  boxes.sort((a, b) => a.r.top - b.r.top);
  for (let i = 0; i < boxes.length; i++)
    for (let k = i + 1; k < boxes.length && boxes[k].r.top < boxes[i].r.bottom - 3; k++) {
      const a = boxes[i].r, b = boxes[k].r;
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3)
        broken.push("overlap: " + boxes[i].name + " | " + boxes[k].name);
    }
  for (const figure of document.querySelectorAll("figure")) {
    const chart = figure.querySelector("svg[role=img]");
    if (!figure.checkVisibility()) continue;
    if (!chart || chart.querySelectorAll("text").length < 4) broken.push("a chart has no names: " + figure.innerText.slice(0, 60));
    else if (chart.getBoundingClientRect().right > view + 1) broken.push("a chart is cut");
    const crowded = figure.querySelectorAll("path[stroke-width='2']").length;
    if (crowded > 4 && !figure.classList.contains("split")) broken.push(crowded + " lines over one another");
  }
  const answer = document.getElementById("answer");
  return { Broken: [...new Set(broken)].slice(0, 20), Answer: answer ? answer.getBoundingClientRect().bottom : 0 };
})()
