// SPDX-License-Identifier: Apache-2.0

package loadgen_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

// leakKey has characters that every encoding writes in its own way.
const leakKey = `sk-AbC+def/GHI=jkl"mno&pqr<stu>vwx0123456789ZYXWVUTS`

// traces are the texts that must not be found: any ten characters of the key, in each of its encodings.
func traces(key string) []string {
	quoted, _ := json.Marshal(key)
	forms := []string{
		key, url.QueryEscape(key), url.PathEscape(key), strings.ToLower(url.QueryEscape(key)), string(quoted[1 : len(quoted)-1]), html.EscapeString(key),
		base64.StdEncoding.EncodeToString([]byte(key)), base64.URLEncoding.EncodeToString([]byte(key)), hex.EncodeToString([]byte(key)),
		strings.ReplaceAll(key, "/", `\/`),
	}
	var all []string
	for _, f := range forms {
		for i := 0; i+10 <= len(f); i++ {
			all = append(all, f[i:i+10])
		}
	}
	return all
}

// TestKeysDoNotLeak: servers that echo the request's credentials, in many encodings, leave nothing of them in the
// artifacts or in Run's result.
func TestKeysDoNotLeak(t *testing.T) {
	refuse := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	stream := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, body)
		}
	}
	asJSON, _ := json.Marshal(leakKey)
	inJSON := string(asJSON[1 : len(asJSON)-1])
	basic := base64.StdEncoding.EncodeToString([]byte("user:" + leakKey + ":more"))
	chunk := func(delta, finish string) string {
		return `data: {"choices":[{"index":0,"delta":{"content":` + delta + `},"finish_reason":` + finish + `}]}` + "\n\n"
	}
	type way struct {
		name     string
		endpoint func(e *loadgen.Endpoint) // nil: the key is the API key
		handler  http.HandlerFunc
		opts     loadgen.Options
		tenant   func(*loadgen.Tenant)
	}
	inQuery := func(name string) func(*loadgen.Endpoint) {
		return func(e *loadgen.Endpoint) { e.URL += "?" + name + "=" + url.QueryEscape(leakKey) }
	}
	inHeader := func(name, prefix string) func(*loadgen.Endpoint) {
		return func(e *loadgen.Endpoint) { e.Header = http.Header{name: {prefix + leakKey}} }
	}
	ways := []way{
		{name: "plain", handler: refuse(401, "Incorrect key: "+leakKey)},
		{name: "where the text is cut", handler: refuse(401, strings.Repeat("x", 385)+" Incorrect key: "+leakKey)},
		{name: "where a text of 300 is cut", handler: refuse(401, strings.Repeat("x", 270)+leakKey)},
		{name: "where reading ends", handler: refuse(401, strings.Repeat(leakKey+" ", 8192/len(leakKey)+2))},
		{name: "first half", handler: refuse(401, "Incorrect key: "+leakKey[:len(leakKey)/2]+"...")},
		{name: "last half", handler: refuse(401, "Incorrect key: ..."+leakKey[len(leakKey)/2:])},
		{name: "JSON", handler: refuse(401, `{"error":{"message":"Incorrect key `+inJSON+`"}}`)},
		{name: "JSON with escaped slashes", handler: refuse(401, `{"error":"`+strings.ReplaceAll(inJSON, "/", `\/`)+`"}`)},
		{name: "percent", handler: refuse(401, url.QueryEscape(leakKey))},
		{name: "percent in lower case", handler: refuse(401, strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(leakKey), "%2B", "%2b"), "%2F", "%2f"))},
		{name: "path", handler: refuse(404, "no such path /v1/"+url.PathEscape(leakKey))},
		{name: "HTML", handler: refuse(401, "<p>"+html.EscapeString(leakKey)+"</p>")},
		{name: "base64", handler: refuse(401, base64.StdEncoding.EncodeToString([]byte(leakKey)))},
		{name: "base64 for URLs", handler: refuse(401, base64.RawURLEncoding.EncodeToString([]byte(leakKey)))},
		{name: "base64 of more", handler: refuse(401, basic)},
		{name: "hex", handler: refuse(401, hex.EncodeToString([]byte(leakKey)))},
		{name: "upper case", handler: refuse(401, strings.ToUpper(leakKey))},
		{name: "Go quotes", handler: refuse(401, fmt.Sprintf("%q", leakKey))},
		{name: "Retry-After", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", strings.Repeat("x", 390)+leakKey)
			w.WriteHeader(429)
		}},
		{name: "redirect", endpoint: inQuery("api-key"), handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/elsewhere/"+url.PathEscape(leakKey)+"?"+r.URL.RawQuery+"#"+url.PathEscape(leakKey))
			w.WriteHeader(307)
		}},
		{name: "HTML page", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, strings.Repeat("y", 350)+leakKey)
		}},
		{name: "error object in a stream", handler: stream(`data: {"error":{"message":"` + strings.Repeat("z", 380) + inJSON + `"}}` + "\n\n")},
		{name: "error event", handler: stream("event: error\ndata: " + strings.Repeat("z", 280) + leakKey + "\n\n")},
		{name: "bad JSON in a stream", handler: stream("data: {" + strings.Repeat("z", 280) + leakKey + "\n\n")},
		{name: "finish reason", handler: stream(chunk(`"a"`, string(asJSON)) + "data: [DONE]\n\n")},
		{name: "error in one piece", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"object":"error","message":"`+inJSON+`"}`)
		}},
		{name: "bad answer line", handler: func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				fmt.Fprintf(c, "HTTP/1.1 %s\r\n\r\n", leakKey)
				c.Close()
			}
		}},
		{name: "bad chunk size", handler: func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n", strings.Repeat("q", 30)+leakKey)
				c.Close()
			}
		}},
		{name: "query echoed raw", endpoint: inQuery("api-key"), handler: func(w http.ResponseWriter, r *http.Request) { refuse(403, r.URL.RawQuery)(w, r) }},
		{name: "query of any name", endpoint: inQuery("x"), handler: func(w http.ResponseWriter, r *http.Request) { refuse(403, r.URL.Query().Get("x"))(w, r) }},
		{name: "query sig", endpoint: inQuery("sig"), handler: refuse(500, leakKey)},
		{name: "query without a name", endpoint: func(e *loadgen.Endpoint) { e.URL += "?" + url.QueryEscape(leakKey) }, handler: refuse(500, leakKey)},
		{name: "header jwt", endpoint: inHeader("X-Jwt", ""), handler: refuse(500, leakKey)},
		{name: "header pwd", endpoint: inHeader("X-Pwd", ""), handler: refuse(500, leakKey)},
		{name: "header with a scheme", endpoint: inHeader("Authorization", "Basic "), handler: refuse(401, leakKey)},
		{name: "cookie", endpoint: inHeader("Cookie", "sid="), handler: refuse(500, leakKey[4:])},
		{name: "arguments", handler: refuse(500, ""), opts: loadgen.Options{Meta: map[string]any{
			"argv": []string{"-key", leakKey, "-url", "http://h/?k=" + url.QueryEscape(leakKey)}, "nested": map[string]any{"deep": []any{leakKey}}, leakKey: 1}}},
		{name: "body field", endpoint: func(*loadgen.Endpoint) {}, handler: refuse(500, leakKey), tenant: func(t *loadgen.Tenant) { t.Body = map[string]any{"api_key": leakKey} }},
	}
	if len(ways) < 20 {
		t.Fatalf("%d ways", len(ways))
	}
	marks := traces(leakKey)
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			srv := httptest.NewServer(w.handler)
			defer srv.Close()
			e := loadgen.Endpoint{URL: srv.URL}
			if w.endpoint == nil {
				e.APIKey = leakKey
			} else {
				w.endpoint(&e)
			}
			for _, receive := range []wire.Mode{wire.ModePolled, wire.ModePlain} {
				plan := planFor(e, 2)
				if w.tenant != nil {
					w.tenant(&plan.Tenants[0])
				}
				opts := loadgen.Receiving(receive, w.opts)
				opts.Dir, opts.KeepRecords = filepath.Join(t.TempDir(), "run"), true
				res, err := loadgen.Run(context.Background(), plan, opts)
				if err != nil {
					t.Fatal(err)
				}
				texts := map[string]string{"result": fmt.Sprintf("%+v", res)}
				if err := fs.WalkDir(os.DirFS(opts.Dir), ".", func(path string, d fs.DirEntry, err error) error {
					if err != nil || d.IsDir() {
						return err
					}
					b, err := os.ReadFile(filepath.Join(opts.Dir, path))
					texts[path] = string(b)
					return err
				}); err != nil {
					t.Fatal(err)
				}
				if len(texts) < 5 {
					t.Fatalf("%d texts", len(texts))
				}
				for name, text := range texts {
					for _, m := range marks {
						if at := strings.Index(text, m); at >= 0 {
							t.Fatalf("%v, %s holds %q: %q", receive, name, m, text[max(0, at-100):min(len(text), at+60)])
						}
					}
				}
				if _, err := loadgen.LoadResult(opts.Dir); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestShortKeysLeaveArtifactsReadable: a key that is a word of the artifacts, as
// servers without any want one, spoils none of them.
func TestShortKeysLeaveArtifactsReadable(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	defer srv.Close()
	for _, key := range []loadgen.Secret{"token", "class", "chat", "0000", "true", "ttft", "usage"} {
		dir := filepath.Join(t.TempDir(), "run")
		if _, err := loadgen.Run(context.Background(), planFor(loadgen.Endpoint{URL: srv.URL, APIKey: key}, 2), loadgen.Options{Dir: dir}); err != nil {
			t.Fatal(err)
		}
		res, err := loadgen.LoadResult(dir)
		if err != nil || res.Summary.Counts.OK != 2 || res.Summary.Tenants[0].API != "chat" {
			t.Errorf("key %q: %v", string(key), err)
		}
	}
}
