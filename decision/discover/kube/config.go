package kube

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
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
	config, from, err := readConfig(files)
	if err != nil || from != "" {
		return config.client(from, err)
	}
	token, err := os.ReadFile(serviceAccount + "/token")
	if host := os.Getenv("KUBERNETES_SERVICE_HOST"); host != "" && err == nil {
		server := "https://" + net.JoinHostPort(host, os.Getenv("KUBERNETES_SERVICE_PORT"))
		c := &client{server: server, token: strings.TrimSpace(string(token))}
		ca, err := os.ReadFile(serviceAccount + "/ca.crt")
		return c, errors.Join(err, c.connect(&tls.Config{}, ca, ""))
	}
	return nil, errors.New("there is no kubeconfig ($KUBECONFIG or ~/.kube/config), and this is no pod")
}

// readConfig merges files as kubectl does: what the first says of a name, or of the current context, counts, and a path
// is relative to its file. from names those that there are.
func readConfig(files []string) (all kubeconfig, from string, err error) {
	for _, file := range files {
		var c kubeconfig
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && yaml.Unmarshal(data, &c) != nil { // whose error may quote a credential
			err = fmt.Errorf("%s: it is no kubeconfig", file)
		}
		if err != nil {
			return all, "", err
		}
		beside := func(paths ...*string) {
			for _, p := range paths {
				if *p != "" && !filepath.IsAbs(*p) {
					*p = filepath.Join(filepath.Dir(file), *p)
				}
			}
		}
		for i := range c.Clusters {
			beside(&c.Clusters[i].Cluster.CA)
		}
		for i := range c.Users {
			u := &c.Users[i].User
			beside(&u.Cert, &u.Key, &u.TokenFile)
		}
		all.Current = cmp.Or(all.Current, c.Current)
		all.Contexts, all.Clusters = append(all.Contexts, c.Contexts...), append(all.Clusters, c.Clusters...)
		all.Users = append(all.Users, c.Users...)
		from = strings.TrimPrefix(from+string(filepath.ListSeparator)+file, string(filepath.ListSeparator))
	}
	return all, from, nil
}

// client logs in to the cluster of the current context.
func (k *kubeconfig) client(from string, err error) (*client, error) {
	if err != nil {
		return nil, err
	}
	clusterName, userName := "", ""
	for _, x := range slices.Backward(k.Contexts) {
		if x.Name == k.Current {
			clusterName, userName = x.Context.Cluster, x.Context.User
		}
	}
	if clusterName == "" {
		return nil, fmt.Errorf("%s: current-context %q has no cluster: choose one with kubectl config use-context",
			from, k.Current)
	}
	c, settings := &client{}, &tls.Config{}
	for _, x := range k.Users {
		if x.Name != userName {
			continue
		}
		switch u := &x.User; {
		case u.Exec != nil:
			return nil, &loginError{from, userName, u.Exec.Command}
		case u.Provider != nil:
			return nil, &loginError{from, userName, u.Provider.Name}
		default:
			err = c.authenticate(u, settings)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: user %q: %w", from, userName, err)
		}
		break
	}
	for _, x := range k.Clusters {
		if x.Name != clusterName {
			continue
		}
		ca, err := content(x.Cluster.CAData, x.Cluster.CA)
		c.server = strings.TrimSuffix(x.Cluster.Server, "/")
		settings.InsecureSkipVerify, settings.ServerName = x.Cluster.Insecure, x.Cluster.Name
		if err == nil {
			err = c.connect(settings, ca, x.Cluster.Proxy)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: cluster %q: %w", from, clusterName, err)
		}
		break
	}
	if !strings.HasPrefix(c.server, "https://") {
		return nil, fmt.Errorf("%s: cluster %q: its server is not an https:// address", from, clusterName)
	}
	return c, nil
}

// content returns a field's base64 data, or else the file that its sibling names.
func content(data, path string) ([]byte, error) {
	if data == "" && path == "" {
		return nil, nil
	}
	if data == "" {
		return os.ReadFile(path)
	}
	out, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, errors.New("certificate data are not base64")
	}
	return out, nil
}

func (c *client) authenticate(u *user, settings *tls.Config) error {
	cert, err1 := content(u.CertData, u.Cert)
	key, err2 := content(u.KeyData, u.Key)
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
		text, err := os.ReadFile(u.TokenFile)
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
