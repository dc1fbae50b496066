// SPDX-License-Identifier: Apache-2.0

package study

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/loadgen"
)

// stream answers every request with one token.
func stream(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

// ran makes a test of four requests.
func ran(t *testing.T, args ...string) loadgen.Counts {
	t.Helper()
	c, err := configured(t, append([]string{"-requests", "4", "-concurrency", "2", "-max-tokens", "1"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	o, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return o.Results[0].Summary.Counts
}

// TestClientCertificate: a server that asks for a certificate gets the one of -cert.
func TestClientCertificate(t *testing.T) {
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "client"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	certFile, keyFile := write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", keyDER)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(stream))
	pool := x509.NewCertPool()
	parsed, _ := x509.ParseCertificate(der)
	pool.AddCert(parsed)
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	ca := write("ca.pem", "CERTIFICATE", srv.Certificate().Raw)
	if c := ran(t, "-endpoint", srv.URL, "-ca", ca, "-cert", certFile, "-key", keyFile); c.OK != 4 {
		t.Errorf("with a certificate: %+v", c)
	}
	if c := ran(t, "-endpoint", srv.URL, "-ca", ca); c.OK != 0 {
		t.Errorf("without one: %+v", c)
	}
	for want, args := range map[string][]string{
		"without -key":                 {"-endpoint", srv.URL, "-cert", certFile},
		"no effect without an https":   {"-endpoint", "http://h", "-cert", certFile, "-key", keyFile},
		"endpoints[0].cert_file":       {"-endpoint", srv.URL, "-cert", keyFile, "-key", keyFile},
		"no certificate in PEM":        {"-endpoint", srv.URL, "-ca", keyFile},
		"headers.x y: is no name":      {"-endpoint", "http://h", "-header", "x y: z"},
		"holds control characters (re": {"-endpoint", "http://h", "-header", "x: a\x1bb"},
	} {
		if _, err := configured(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

// TestKeyWithALineBreak: a key that no header can hold is refused before anything is sent.
func TestKeyWithALineBreak(t *testing.T) {
	t.Setenv("COTENANT_TEST_KEY", "secret\n")
	if _, err := configured(t, "-endpoint", "http://127.0.0.1:1", "-api-key-env", "COTENANT_TEST_KEY"); err == nil ||
		!strings.Contains(err.Error(), "api_key: holds control characters") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}
