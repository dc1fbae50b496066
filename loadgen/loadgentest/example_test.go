// SPDX-License-Identifier: Apache-2.0

package loadgentest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

func post(url, body string) string {
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return string(b) + err.Error()
	}
	return string(b)
}

func Example() {
	srv, err := loadgentest.NewServer(loadgentest.Options{Script: loadgentest.Always(loadgentest.Reply{Tokens: 2})})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	fmt.Print(post(srv.URL+"/v1/completions", `{"model":"m","prompt":"hi","stream":true}`))
	// Output:
	// data: {"id":"cmpl-0","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"tok ","finish_reason":null}]}
	//
	// data: {"id":"cmpl-0","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"tok ","finish_reason":"stop"}]}
	//
	// data: [DONE]
}

func ExampleEvery() {
	script := loadgentest.Every(3, loadgentest.Reply{Status: 503}, loadgentest.Reply{})
	for n := range 6 {
		fmt.Print(script(loadgentest.Request{N: n}).Status, " ")
	}
	// Output: 0 0 503 0 0 503
}

func ExampleServer_Served() {
	srv, err := loadgentest.NewServer(loadgentest.Options{Script: loadgentest.Always(loadgentest.Reply{Tokens: 5, PerEvent: 2})})
	if err != nil {
		fmt.Println(err)
		return
	}
	post(srv.URL+"/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"stream":true}`)
	srv.Close()
	for _, s := range srv.Served() {
		fmt.Println(s.Request.Prompt, len(s.Events), "events,", s.Tokens, "tokens")
	}
	// Output: hi 3 events, 5 tokens
}

func ExampleNewSimulation() {
	sim, err := loadgentest.NewSimulation([]loadgentest.GPUOptions{{Seed: 1}}, loadgentest.SimulatedServer{
		Options: loadgentest.Options{Model: loadgentest.Model{KernelMean: 10 * time.Microsecond, SMShare: 0.5}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sim.Close()
	fmt.Println(strings.Count(post(sim.Servers[0].URL+"/v1/completions", `{"prompt":"hi","max_tokens":7,"stream":true}`), "tok "))
	// Output: 7
}
