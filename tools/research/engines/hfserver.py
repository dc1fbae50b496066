#!/usr/bin/env python3
"""An OpenAI-compatible server around the transformers library's continuous batching, with random weights.

    python3 hfserver.py --model 1b --port 8001

Prompts are a token a word, answers have exactly max_tokens tokens of one word each, which mean nothing; the work on the
GPU is real. Needs torch with CUDA, transformers 5 and aiohttp, and no network. In a plan of `cotenant measure -real`:

    servers:
      - {name: hf, model: hf-1b, engine: transformers, command: [python3, hfserver.py, --model, 1b, --port, "8001"],
         url: "http://127.0.0.1:8001", api: completions, slots: 64}
"""
import argparse, asyncio, inspect, json, os, sys, time, uuid, zlib

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
from aiohttp import web
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

MODELS = {  # layers, width, query heads, kv heads, feed-forward width
    "1b": (16, 2048, 32, 8, 8192), "3b": (28, 3072, 24, 8, 8192), "8b": (32, 4096, 32, 8, 14336),
}


def build(a):
    layers, width, heads, kv, ff = MODELS[a.model]
    cfg = LlamaConfig(vocab_size=32000, hidden_size=width, intermediate_size=ff, num_hidden_layers=layers,
                      num_attention_heads=heads, num_key_value_heads=kv, max_position_embeddings=8192,
                      eos_token_id=None, bos_token_id=None, pad_token_id=0)
    cfg._attn_implementation = "sdpa"
    torch.backends.cuda.enable_cudnn_sdp(False)  # which plans anew, for 42 ms on an H200, for each length of keys
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(cfg).eval()
    gen = GenerationConfig(max_new_tokens=16, do_sample=False, use_cache=True, pad_token_id=0, eos_token_id=-1)
    kw = {}
    try:
        from transformers import ContinuousBatchingConfig
        fields = inspect.signature(ContinuousBatchingConfig).parameters
        want = {"max_memory_percent": a.memory, "allow_block_sharing": False}
        cb = ContinuousBatchingConfig(**{k: v for k, v in want.items() if k in fields})
        kw = {"continuous_batching_config": cb}
    except ImportError:
        pass
    manager = model.init_continuous_batching(generation_config=gen, **kw)
    manager.add_request(list(range(5, 70)), request_id="warm", max_new_tokens=8, eos_token_id=-1)
    manager.start()
    t = time.time()
    while time.time() - t < 300:
        r = manager.get_result(timeout=1)
        if r is not None and r.is_finished():
            break
        if not manager.is_running():
            sys.exit("the manager stopped")
    for n in (1, 2, 3, 4, 6, 8):  # what it captures and compiles on first use
        for k in range(n):
            manager.add_request(list(range(5, 105 + 40 * k)), request_id=f"warm-{n}-{k}", max_new_tokens=24,
                                eos_token_id=-1)
        done = 0
        while done < n and time.time() - t < 40:
            r = manager.get_result(timeout=1)
            done += r is not None and r.is_finished()
    return manager


def words(body):
    if "messages" in body:
        return " ".join(str(m.get("content", "")) for m in body["messages"]).split()
    p = body.get("prompt", "")
    return (" ".join(map(str, p)) if isinstance(p, list) else str(p)).split()


def app_of(manager, name):
    async def complete(request):
        chat = request.path.endswith("chat/completions")
        body = await request.json()
        ids = [5 + zlib.crc32(w.encode()) % 31990 for w in words(body)] or [5]
        want = int(body.get("max_tokens") or body.get("max_completion_tokens") or 16)
        rid, q = uuid.uuid4().hex, asyncio.Queue()
        manager.register_result_handler(rid, q.put_nowait)
        manager.add_request(ids, request_id=rid, max_new_tokens=want, streaming=True, eos_token_id=-1)
        done = False

        def chunk(text, finish=None):
            c = {"index": 0, "finish_reason": finish}
            if chat:
                c["delta"] = {"content": text} if text is not None else {}
            else:
                c["text"] = text or ""
            return {"id": rid, "object": "chat.completion.chunk" if chat else "text_completion",
                    "created": int(time.time()), "model": name, "choices": [c]}
        usage = {"prompt_tokens": len(ids), "completion_tokens": want, "total_tokens": len(ids) + want}
        try:
            resp = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
            stream, n = bool(body.get("stream")), 0
            if stream:
                await resp.prepare(request)
            while not done:
                r = await q.get()
                if getattr(r, "error", None):
                    raise RuntimeError(r.error)
                for t in r.generated_tokens[n:]:
                    n += 1
                    if stream:
                        await resp.write(b"data: " + json.dumps(chunk(f"w{t} ")).encode() + b"\n\n")
                done = r.is_finished()
            if not stream:
                c = {"index": 0, "finish_reason": "length"}
                c.update({"message": {"role": "assistant", "content": "w " * n}} if chat else {"text": "w " * n})
                return web.json_response({"id": rid, "object": "text_completion", "created": int(time.time()),
                                          "model": name, "choices": [c], "usage": usage})
            await resp.write(b"data: " + json.dumps(chunk(None, "length")).encode() + b"\n\n")
            u = chunk(None); u["choices"] = []; u["usage"] = usage
            await resp.write(b"data: " + json.dumps(u).encode() + b"\n\ndata: [DONE]\n\n")
            await resp.write_eof()
            return resp
        finally:
            if not done:
                manager.cancel_request(rid)

    async def models(_):
        return web.json_response({"object": "list", "data": [{"id": name, "object": "model", "owned_by": "testbed"}]})

    async def health(_):
        return web.json_response({"status": "ok" if manager.is_running() else "stopped"},
                                 status=200 if manager.is_running() else 500)

    app = web.Application()
    app.add_routes([web.post("/v1/completions", complete), web.post("/v1/chat/completions", complete),
                    web.get("/v1/models", models), web.get("/health", health)])
    return app


async def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--model", choices=MODELS, default="1b")
    ap.add_argument("--port", type=int, default=8001)
    ap.add_argument("--memory", type=float, default=0.06, help="share of the GPU's memory for keys and values")
    a = ap.parse_args()
    manager = build(a)
    runner = web.AppRunner(app_of(manager, "hf-" + a.model), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", a.port).start()
    print("ready", flush=True)
    while manager.is_running():
        await asyncio.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    asyncio.run(main())
