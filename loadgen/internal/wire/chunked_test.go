// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"strings"
	"testing"
)

// decodeChunked feeds body in the pieces that cut gives the ends of.
func decodeChunked(body string, cuts ...int) (data, rest string, ended bool, err error) {
	var d chunkedDecoder
	from := 0
	for _, to := range append(cuts, len(body)) {
		got, left, end, err := d.decode([]byte(body[from:to]))
		data += string(got)
		if err != nil {
			return data, "", false, err
		}
		if end {
			return data, string(left) + body[to:], true, nil
		}
		from = to
	}
	return data, "", false, nil
}

func TestChunkedDecoder(t *testing.T) {
	for _, c := range []struct {
		name, body, data, rest string
		ended, fails           bool
	}{
		{name: "plain", body: "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", data: "hello world", ended: true},
		{name: "extensions", body: "5;a=b;c=\"d\"\r\nhello\r\n0;x\r\n\r\n", data: "hello", ended: true},
		{name: "blank after the size", body: "5 \t\r\nhello\r\n0\r\n\r\n", data: "hello", ended: true},
		{name: "trailers", body: "5\r\nhello\r\n0\r\nA: b\r\nC: d\r\n\r\n", data: "hello", ended: true},
		{name: "rest", body: "A\r\n0123456789\r\n0\r\n\r\nHTTP/1.1", data: "0123456789", rest: "HTTP/1.1", ended: true},
		{name: "leading zeros", body: "0005\r\nhello\r\n000\r\n\r\n", data: "hello", ended: true},
		{name: "cut", body: "5\r\nhel", data: "hel"},
		{name: "no last CRLF", body: "5\r\nhello\r\n0\r\n", data: "hello"},
		{name: "bare LF", body: "5\nhello\r\n0\r\n\r\n", fails: true},
		{name: "LF alone", body: "\n", fails: true},
		{name: "CR in the line", body: "5\r;\r\nhello\r\n", fails: true},
		{name: "no size", body: "\r\nhello\r\n", fails: true},
		{name: "sign", body: "+5\r\nhello\r\n0\r\n\r\n", fails: true},
		{name: "underscore", body: "1_0\r\nhello\r\n0\r\n\r\n", fails: true},
		{name: "no hex", body: "5\r\nhello\r\nxyz\r\n", data: "hello", fails: true},
		{name: "huge", body: "11111111111111111\r\n", fails: true},
		{name: "no CRLF after the data", body: "5\r\nhelloXX0\r\n\r\n", data: "hello", fails: true},
		{name: "long line", body: "5;" + strings.Repeat("x", maxChunkLine) + "\r\n", fails: true},
		{name: "much beside the data", body: strings.Repeat("1;"+strings.Repeat("x", 200)+"\r\na\r\n", 200), data: "-", fails: true},
		{name: "trailer without a name", body: "0\r\nabc\r\n\r\n", fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for cut := 0; cut <= len(c.body); cut += 1 + len(c.body)/500 {
				data, rest, ended, err := decodeChunked(c.body, cut)
				if c.data == "-" {
					data = "-"
				}
				if data != c.data || rest != c.rest || ended != c.ended || (err != nil) != c.fails {
					t.Fatalf("cut at %d: %q, %q, %v, %v", cut, data, rest, ended, err)
				}
				if err != nil && !errors.Is(err, ErrChunked) {
					t.Fatal(err)
				}
			}
		})
	}
}

// FuzzChunked holds the decoder against net/http's.
func FuzzChunked(f *testing.F) {
	f.Add([]byte("5;a=b\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"), uint8(3))
	f.Add([]byte("5 \r\nhello\r\n0\r\nA: b\r\n\r\n"), uint8(1))
	f.Add([]byte("5\nhello\r\n0\r\n\r\n"), uint8(7))
	f.Fuzz(func(t *testing.T, body []byte, step uint8) {
		want, wantErr := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(append(bytes.Clone(body), "\r\n"...))))
		var cuts []int
		for at := int(step); step > 0 && at < len(body); at += int(step) {
			cuts = append(cuts, at)
		}
		data, _, _, err := decodeChunked(string(body)+"\r\n", cuts...)
		if once, _, _, onceErr := decodeChunked(string(body) + "\r\n"); data != once || fmt.Sprint(err) != fmt.Sprint(onceErr) {
			t.Fatalf("in pieces %q, %v; at once %q, %v", data, err, once, onceErr)
		}
		switch {
		case err != nil && strings.Contains(err.Error(), "trailer"):
			err = nil // net/http reads the trailer elsewhere
		case err == nil && errors.Is(wantErr, io.ErrUnexpectedEOF):
			wantErr = nil // the end of the connection is not the decoder's to see
		}
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("%q: %v, net/http says %v", body, err, wantErr)
		}
		if err == nil && data != string(want) {
			t.Fatalf("%q: %q, net/http reads %q", body, data, want)
		}
	})
}
