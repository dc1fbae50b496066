"use strict";
// Money is whole micro-units, rounded half away from zero, as package cost has it.
const million = 1000000n;
const round = (n, d) => (n < 0n ? -1n : 1n) * ((2n * (n < 0n ? -n : n) + d) / (2n * d));
// calculate takes GPUs, micro-units for a GPU-hour, workloads a GPU, the part of a GPU that one keeps busy, and the
// overhead in parts per million.
function calculate(gpus, micros, tenants, use, overhead) {
  const price = BigInt(micros), each = round(price * (million + BigInt(overhead)), BigInt(tenants) * million);
  return {
    each, fraction: round((price - each) * million, price),
    capacity: 24 * gpus * (tenants - 1) / tenants,
    work: 24 * gpus * (Math.min(1, tenants * use) - use),
    needed: tenants * use,
  };
}
const form = document.querySelector("form"), show = (id, text) => { document.getElementById(id).textContent = text; };
const whole = (text, least, most) => /^\d+$/.test(text) && +text >= least && +text <= most ? +text : NaN;
const decimals = (text, digits) => new RegExp("^\\d{1,9}(\\.\\d{1," + digits + "})?$").test(text) ? Math.round(text * 10 ** digits) : NaN;
const dollars = micros => (Number(micros) / 1e6).toFixed(6).replace(/0{1,4}$/, ""), percent = ppm => (Number(ppm) / 1e4).toFixed(1) + "%";
const span = (a, b) => a === b ? a : a + " to " + b;
function update() {
  const v = Object.fromEntries([...new FormData(form)].map(([k, x]) => [k, x.trim()])), m = mechanisms[v.mechanism];
  const gpus = whole(v.gpus, 0, 1e9), micros = decimals(v.price, 6), tenants = whole(v.tenants, 1, 1e9), use = decimals(v.use, 4) / 1e6;
  const own = v.overhead === "" ? null : decimals(v.overhead, 4);
  const low = own ?? m.Low, high = own ?? m.High;
  show("source", own === null ? m.Source : "your measurement");
  const wrong = [[gpus, "GPUs"], [micros || NaN, "price"], [tenants, "workloads"], [use <= 1 ? use : NaN, "% of a GPU"], [own ?? 0, "overhead"]]
    .filter(([x]) => Number.isNaN(x)).map(([, name]) => name);
  const missing = wrong.length ? "give a number for: " + wrong.join(", ") : m.Most && tenants > m.Most ? `no: ${v.mechanism} takes at most ${m.Most} workloads to a GPU` :
    low === null ? "unknown: no source gives the overhead; measure it" : "";
  if (missing) {
    for (const id of ["each", "saving", "capacity", "work"]) show(id, "-");
    return show("verdict", missing);
  }
  const best = calculate(gpus, micros, tenants, use, low), worst = calculate(gpus, micros, tenants, use, high);
  show("each", span(dollars(best.each), dollars(worst.each)));
  show("saving", span(percent(worst.fraction), percent(best.fraction)));
  show("capacity", best.capacity.toFixed(1));
  show("work", best.work.toFixed(1));
  show("verdict", best.needed > 1 ? `no: the workloads need ${(100 * best.needed).toFixed(0)}% of a GPU: they do not fit on one, and slow one another down` :
    worst.fraction <= 0n ? "no: by its highest overhead sharing costs more than GPUs of their own" :
    `yes: they need ${(100 * best.needed).toFixed(0)}% of a GPU, and sharing saves ${percent(worst.fraction)} or more; whether their latencies are kept, cotenant decide says`);
}
form.addEventListener("input", update);
form.addEventListener("submit", event => event.preventDefault());
update();
