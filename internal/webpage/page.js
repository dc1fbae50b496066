"use strict";
for (const figure of document.querySelectorAll("figure")) {
  const c = JSON.parse(figure.querySelector("script").textContent), el = figure.querySelector("div"), at = {};
  // One colour's lines differ by their dashes. Where there are too many lines, each colour has a part of the chart.
  const keys = [...figure.querySelectorAll(".legend i")], seen = {};
  const split = c.Series.length > 4 && c.Series.some(s => s.Points.length > 1);
  figure.classList.toggle("split", split);
  c.Series.forEach((s, i) => {
    s.key = keys[i].className;
    s.part = Object.keys(seen).indexOf(s.key) < 0 ? Object.keys(seen).length : Object.keys(seen).indexOf(s.key);
    s.nth = seen[s.key] = (seen[s.key] ?? -1) + 1;
    keys[i].classList.toggle("dash", s.nth > 0);
  });
  const scale = (key, low, high) => {
    const a = c[key], shown = v => v != null && (v > 0 || !a.Log);
    const values = c.Series.flatMap(s => s.Points.flatMap(p => key == "X" && !c.Diagonal ? [p[0]] : c.Diagonal ? p : p.slice(1)));
    for (const l of c.Limits || []) if (!!l.Vertical == (key == "X")) values.push(l.At);
    const [min, max] = d3.extent(values.filter(shown));
    return at[key] = {
      label: a.Label, labelAnchor: "center", labelArrow: "none", grid: true, type: a.Log ? "log" : "linear", ticks: a.Ticks || undefined,
      domain: [a.Min || (a.Log ? min / 1.05 : Math.min(0, min * 1.05)), a.Max || max * 1.05],
    };
  };
  const draw = width => {
    const columns = split ? Math.max(1, Math.floor(width / 420)) : 1, rows = split ? Math.ceil(Object.keys(seen).length / columns) : 1;
    const facet = s => split ? { fx: () => s.part % columns, fy: () => Math.floor(s.part / columns) } : {};
    const marks = c.Series.flatMap(s => {
      const colour = `var(--${s.key})`, bounded = s.Points.filter(p => p.length > 2);
      const to = { x: "0", y: "1", ...facet(s), clip: true, tip: true };
      return [
        c.Scatter ? Plot.ruleX(bounded, { ...to, y: undefined, y1: "2", y2: "3", stroke: colour, tip: false }) :
          Plot.areaY(bounded, { ...to, y: undefined, y1: "2", y2: "3", fill: colour, fillOpacity: .2, tip: false }),
        ...(c.Scatter ? [] : [Plot.line(s.Points, { ...to, stroke: colour, strokeWidth: 2, strokeDasharray: ["", "9 4", "3 3", "9 3 3 3"][s.nth % 4] })]),
        ...(c.Scatter || s.Points.length < 20 ? [Plot.dot(s.Points, { ...to, fill: colour })] : []),
        ...(split && !s.nth ? [Plot.text([keys[c.Series.indexOf(s)].parentNode.textContent], { ...facet(s), frameAnchor: "top-left", dx: 6, dy: 6 })] : []),
      ];
    });
    for (const l of c.Limits || []) marks.push((l.Vertical ? Plot.ruleX : Plot.ruleY)([l.At], { strokeDasharray: "6 4", strokeWidth: 1.5 }));
    const x = scale("X"), y = scale("Y");
    const low = Math.max(x.domain[0], y.domain[0]), high = Math.min(x.domain[1], y.domain[1]);
    if (c.Diagonal) marks.push(Plot.line([[low, low], [high, high]], { strokeDasharray: "6 4" }));
    const svg = Plot.plot({
      width, height: 60 + rows * (split ? 180 : Math.min(260, Math.max(190, width * .5))), marks, x, y, marginLeft: 56, marginBottom: 40,
      fx: { axis: null }, fy: { axis: null },
    });
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", c.Title + ": " + c.Y.Label + " against " + c.X.Label);
    el.replaceChildren(svg);
  };
  let drawn = 0;
  new ResizeObserver(() => { if (el.clientWidth && el.clientWidth != drawn) draw(drawn = el.clientWidth); }).observe(el);
}
