package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// onPath reports whether kubectl can be run.
func onPath() bool {
	_, err := exec.LookPath("kubectl")
	return err == nil
}

// noSuchKind is kubectl's message about a kind that the cluster lacks.
const noSuchKind = "the server doesn't have a resource type"

// runKubectl reads the resources of every cluster by one kubectl get, and each that an extension adds by another,
// since kubectl refuses the whole command for a kind that the cluster lacks.
func runKubectl(ctx context.Context, take func(string, io.Reader) error, messages io.Writer) (part, err error) {
	if err := kubectlGet(ctx, Resources(), take, messages); err != nil {
		var in *partError
		if !errors.As(err, &in) {
			return nil, err
		}
		part = err
	}
	for i := range resources {
		if r := &resources[i]; r.added && ctx.Err() == nil {
			err := kubectlGet(ctx, r.name, take, nil)
			if err != nil && !strings.Contains(err.Error(), noSuchKind) {
				part = errors.Join(part, err)
			}
		}
	}
	return part, nil
}

// partError is an error beside which some objects were read.
type partError struct{ error }

func kubectlGet(ctx context.Context, names string, take func(string, io.Reader) error, messages io.Writer) error {
	cmd := exec.CommandContext(ctx, "kubectl", "get", names, "--all-namespaces", "-o", "json")
	cmd.WaitDelay = 5 * time.Second // for pipes that a program it started still holds
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if messages != nil {
		cmd.Stderr = io.MultiWriter(&errs, messages)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("kube: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("kube: %w", err)
	}
	name := "kubectl get " + names
	counted := &counter{r: out}
	takeErr := take(name, counted)
	_, _ = io.Copy(io.Discard, out) // so that kubectl can end
	err = cmd.Wait()
	if ctx.Err() != nil {
		return &partError{ctx.Err()}
	}
	if err != nil {
		err = fmt.Errorf("kube: %s: %w", name, err)
		if messages == nil {
			err = fmt.Errorf("%w: %s", err, strings.ReplaceAll(strings.TrimSpace(errs.String()), "\n", "; "))
		}
		if counted.n == 0 {
			return err
		}
		return &partError{errors.Join(takeErr, err)}
	}
	if takeErr != nil {
		return &partError{takeErr}
	}
	return nil
}

// counter counts the bytes that were read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
