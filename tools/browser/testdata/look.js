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
  // Texts of charts are painted; listen.js has noted them.
  for (const chart of document.querySelectorAll(".uplot")) {
    if (chart.getBoundingClientRect().right > view + 1) broken.push("a chart is cut");
    const texts = chart.querySelector("canvas").texts || [];
    if (texts.length < 4) broken.push("a chart has " + texts.length + " texts");
    for (let i = 0; i < texts.length; i++) {
      const a = texts[i];
      if (a.left < -1 || a.right > chart.clientWidth + 1 || a.top < -1 || a.bottom > chart.clientHeight + 1) broken.push("cut in a chart: " + a.text);
      for (const b of texts.slice(i + 1))
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
          broken.push("overlap in a chart: " + a.text + " | " + b.text);
    }
  }
  const answer = document.getElementById("answer");
  return { Broken: [...new Set(broken)].slice(0, 20), Answer: answer ? answer.getBoundingClientRect().bottom : 0 };
})()
