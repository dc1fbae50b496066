// Notes for each canvas where its texts stand, in pixels of the page.
{
  const canvas = CanvasRenderingContext2D.prototype, { fillText, clearRect } = canvas;
  canvas.clearRect = function (...args) { this.canvas.texts = []; clearRect.apply(this, args); };
  canvas.fillText = function (text, x, y, ...more) {
    const m = this.measureText(text), to = this.getTransform(), corners = [];
    for (const u of [x - m.actualBoundingBoxLeft, x + m.actualBoundingBoxRight])
      for (const v of [y - m.actualBoundingBoxAscent, y + m.actualBoundingBoxDescent]) corners.push(to.transformPoint({ x: u, y: v }));
    const ends = (key, pick) => pick(...corners.map(c => c[key])) / devicePixelRatio;
    if (text) (this.canvas.texts ||= []).push({ text, left: ends("x", Math.min), right: ends("x", Math.max), top: ends("y", Math.min), bottom: ends("y", Math.max) });
    fillText.call(this, text, x, y, ...more);
  };
}
