// SPDX-License-Identifier: Apache-2.0

//go:build linux

package loadclient

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cotenant/cotenant/internal/stats"
)

// The server of the performance benchmarks: all streams get their next event on a common tick, as from an engine that
// decodes a batch in steps, and it records what it sent when. Each event's text is the time of its write.

type perfScript struct {
	TTFT   time.Duration
	Step   time.Duration
	Tokens int
}

// perfTruth is what the server knows to be so. Times in ms.
type perfTruth struct {
	Streams, Events        int64
	TTFTP50, TTFTP99       float64 // from the complete request to the write
	GapP50, GapP99, GapMax float64
}

type perfServer struct {
	script  perfScript
	mu      sync.Mutex
	streams []*perfStream
	ttft    []float64
	gaps    []float64
}

type perfStream struct {
	conn     net.Conn
	received time.Time
	last     time.Time
	sent     int
	done     chan struct{}
	buf      []byte
}

// perfServe serves until stdin ends, then prints the truth.
func perfServe(script perfScript) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &perfServer{script: script}
	fmt.Println(ln.Addr().String())
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go s.serve(c)
		}
	}()
	stop := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	for next := time.Now(); ; {
		select {
		case <-stop:
			return s.report()
		default:
		}
		next = next.Add(script.Step)
		if d := time.Until(next); d > 0 {
			time.Sleep(d - min(d, time.Millisecond))
			for time.Until(next) > 0 {
			}
		}
		s.tick()
	}

}

func (s *perfServer) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		st := &perfStream{conn: c, received: time.Now(), done: make(chan struct{})}
		s.mu.Lock()
		s.streams = append(s.streams, st)
		s.mu.Unlock()
		<-st.done
	}
}

const perfHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// tick sends every stream that is due its next event.
func (s *perfServer) tick() {
	s.mu.Lock()
	streams := slices.Clone(s.streams)
	s.mu.Unlock()
	finished := map[*perfStream]bool{}
	var ttft, gaps []float64
	for _, st := range streams {
		now := time.Now()
		if st.sent == 0 && now.Sub(st.received) < s.script.TTFT {
			continue
		}
		st.buf = st.buf[:0]
		if st.sent == 0 {
			st.buf = append(st.buf, perfHead...)
			ttft = append(ttft, now.Sub(st.received).Seconds()*1e3)
		} else {
			gaps = append(gaps, now.Sub(st.last).Seconds()*1e3)
		}
		st.last = now
		st.sent++
		st.buf = appendChunk(st.buf, now.UnixNano(), st.sent == s.script.Tokens, st.sent)
		if _, err := st.conn.Write(st.buf); err != nil || st.sent == s.script.Tokens {
			finished[st] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ttft, s.gaps = append(s.ttft, ttft...), append(s.gaps, gaps...)
	if len(finished) > 0 {
		s.streams = slices.DeleteFunc(s.streams, func(st *perfStream) bool { return finished[st] })
		for st := range finished {
			close(st.done)
		}
	}
}

// appendChunk appends an event of the size and shape that vLLM sends.
func appendChunk(b []byte, now int64, last bool, tokens int) []byte {
	event := make([]byte, 0, 512)
	event = append(event, `data: {"id":"chatcmpl-9f2c4c1f6f0b4cc5a1a2b3c4d5e6f708","object":"chat.completion.chunk","created":1767322800,"model":"meta-llama/Llama-3.1-8B-Instruct","choices":[{"index":0,"delta":{"content":" t`...)
	event = strconv.AppendInt(event, now, 10)
	event = append(event, `"},"logprobs":null,"finish_reason":null}]}`...)
	event = append(event, "\n\n"...)
	if last {
		event = append(event, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`+"\n\n"...)
		event = fmt.Appendf(event, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":%d}}`+"\n\ndata: [DONE]\n\n", tokens)
	}
	b = strconv.AppendInt(b, int64(len(event)), 16)
	b = append(b, "\r\n"...)
	b = append(b, event...)
	b = append(b, "\r\n"...)
	if last {
		b = append(b, "0\r\n\r\n"...)
	}
	return b
}

func (s *perfServer) report() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := perfTruth{Streams: int64(len(s.ttft)), Events: int64(len(s.ttft) + len(s.gaps))}
	t.TTFTP50, t.TTFTP99, _ = perfPercentiles(s.ttft)
	t.GapP50, t.GapP99, t.GapMax = perfPercentiles(s.gaps)
	return json.NewEncoder(os.Stdout).Encode(t)
}

func perfPercentiles(v []float64) (p50, p99, top float64) {
	if len(v) == 0 {
		return 0, 0, 0
	}
	slices.Sort(v)
	at := func(q float64) float64 { return stats.NearestRank(v, q) }
	return at(0.5), at(0.99), v[len(v)-1]
}
