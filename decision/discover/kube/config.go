package kube

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// kubeconfig has the fields of a kubeconfig file that are read.
type kubeconfig struct {
	Current  string `yaml:"current-context"`
	Contexts []struct {
		Name    string
		Context struct{ Cluster, User string }
	}
	Clusters []struct {
		Name    string
		Cluster struct {
			Server   string
			CA       string `yaml:"certificate-authority"`
			CAData   string `yaml:"certificate-authority-data"`
			Insecure bool   `yaml:"insecure-skip-tls-verify"`
			Name     string `yaml:"tls-server-name"`
			Proxy    string `yaml:"proxy-url"`
		}
	}
	Users []struct {
		Name string
		User user
	}
}

// user holds one user's credentials.
type user struct {
	Cert      string `yaml:"client-certificate"`
	CertData  string `yaml:"client-certificate-data"`
	Key       string `yaml:"client-key"`
	KeyData   string `yaml:"client-key-data"`
	Token     string
	TokenFile string `yaml:"tokenFile"`
	Exec      *struct{ Command string }
	Provider  *struct{ Name string } `yaml:"auth-provider"`
}

// loginError is a user who logs in through a program.
type loginError struct{ file, user, program string }

func (e *loginError) Error() string {
	return fmt.Sprintf("%s: user %q logs in through %q, which kubectl runs: install kubectl", e.file, e.user, e.program)
}

const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount" // the folder with a pod's credentials

// newClient finds the cluster as kubectl does.
func newClient() (*client, error) {
	env := os.Getenv("KUBECONFIG")
	files := filepath.SplitList(env)
	if home, err := os.UserHomeDir(); env == "" && err == nil {
		files = []string{filepath.Join(home, ".kube", "config")}
	}
	for _, f := range files {
		if exists(f) {
			return fromFile(f)
		}
	}
	if host := os.Getenv("KUBERNETES_SERVICE_HOST"); host != "" && exists(serviceAccount+"/token") {
		token, err := os.ReadFile(serviceAccount + "/token")
		if err != nil {
			return nil, err
		}
		server := "https://" + net.JoinHostPort(host, os.Getenv("KUBERNETES_SERVICE_PORT"))
		c := &client{server: server, token: strings.TrimSpace(string(token))}
		ca, err := os.ReadFile(serviceAccount + "/ca.crt")
		return c, errors.Join(err, c.connect(&tls.Config{}, ca, ""))
	}
	return nil, errors.New("there is no kubeconfig ($KUBECONFIG or ~/.kube/config), and this is no pod")
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func fromFile(file string) (*client, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var config kubeconfig
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, fmt.Errorf("%s: it is no kubeconfig", file) // the error may quote a credential
	}
	clusterName, userName := "", ""
	for _, x := range config.Contexts {
		if x.Name == config.Current {
			clusterName, userName = x.Context.Cluster, x.Context.User
		}
	}
	if clusterName == "" {
		return nil, fmt.Errorf("%s: current-context %q has no cluster: choose one with kubectl config use-context",
			file, config.Current)
	}
	c, settings, dir := &client{}, &tls.Config{}, filepath.Dir(file)
	for i := range config.Users {
		u := &config.Users[i].User
		switch {
		case config.Users[i].Name != userName:
			continue
		case u.Exec != nil:
			return nil, &loginError{file, userName, u.Exec.Command}
		case u.Provider != nil:
			return nil, &loginError{file, userName, u.Provider.Name}
		}
		if err := c.authenticate(u, settings, dir); err != nil {
			return nil, fmt.Errorf("%s: user %q: %w", file, userName, err)
		}
	}
	for i := range config.Clusters {
		if config.Clusters[i].Name != clusterName {
			continue
		}
		x := &config.Clusters[i].Cluster
		ca, err := content(dir, x.CAData, x.CA)
		c.server = strings.TrimSuffix(x.Server, "/")
		settings.InsecureSkipVerify, settings.ServerName = x.Insecure, x.Name
		if err == nil {
			err = c.connect(settings, ca, x.Proxy)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: cluster %q: %w", file, clusterName, err)
		}
	}
	if !strings.HasPrefix(c.server, "https://") {
		return nil, fmt.Errorf("%s: cluster %q: its server is not an https:// address", file, clusterName)
	}
	return c, nil
}

// content returns a field's base64 data, or else the file that its sibling names, relative to dir.
func content(dir, data, path string) ([]byte, error) {
	if data != "" {
		out, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, errors.New("certificate data are not base64")
		}
		return out, nil
	}
	if path == "" {
		return nil, nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return os.ReadFile(path)
}

func (c *client) authenticate(u *user, settings *tls.Config, dir string) error {
	cert, err1 := content(dir, u.CertData, u.Cert)
	key, err2 := content(dir, u.KeyData, u.Key)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if len(cert) > 0 {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return errors.New("the client certificate and its key do not fit")
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	if c.token = u.Token; u.TokenFile != "" && c.token == "" {
		text, err := content(dir, "", u.TokenFile)
		c.token = strings.TrimSpace(string(text))
		return err
	}
	return nil
}

// connect makes the HTTP client. An empty ca stands for the machine's certificates.
func (c *client) connect(settings *tls.Config, ca []byte, proxy string) error {
	settings.MinVersion = tls.VersionTLS12
	if len(ca) > 0 {
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(ca) {
			return errors.New("the certificate authority is no PEM")
		}
	}
	t := &http.Transport{TLSClientConfig: settings, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	if proxy != "" {
		u, err := url.Parse(proxy)
		if err != nil {
			return errors.New("proxy-url is no URL")
		}
		t.Proxy = http.ProxyURL(u)
	}
	// A redirect would carry the credentials elsewhere.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &http.Client{Transport: t, CheckRedirect: stay}
	return nil
}
