// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/discover"
)

// readCluster lists the resources of the cluster of kubectl's current context and passes them to take as JSON, together
// with a name for messages. kubectl finds the cluster and logs in, also in a pod, by its service account; no Secret and
// no ConfigMap is read. messages receives kubectl's standard error, such as a login's questions; nil puts it into the
// error. part lists the resources that can't be read; err is set when nothing was read, and matches exec.ErrNotFound
// when kubectl is not on PATH.
//
// One kubectl get reads the resources of every cluster. Each resource of an extension needs a command of its own, since
// kubectl refuses the whole command for a kind that the cluster lacks.
func readCluster(ctx context.Context, take func(name string, r io.Reader) error, messages io.Writer) (part, err error) {
	if part, err = get(ctx, discover.Resources, take, messages); err != nil {
		return nil, err
	}
	for _, name := range extensions {
		if ctx.Err() != nil {
			break
		}
		more, err := get(ctx, name, take, nil)
		if err == nil || !strings.Contains(err.Error(), noSuchKind) {
			part = errors.Join(part, more, err)
		}
	}
	return part, nil
}

// extensions are the resources that many clusters lack.
var extensions = []string{"leaderworkersets", "resourceslices", "resourceclaims", "resourceclaimtemplates",
	"deviceclasses"}

// noSuchKind is kubectl's message about a kind that the cluster lacks.
const noSuchKind = "the server doesn't have a resource type"

// get lists some resources. part is an error after which some objects are valid.
func get(ctx context.Context, names string, take func(string, io.Reader) error, messages io.Writer) (part, err error) {
	cmd := exec.CommandContext(ctx, "kubectl", "get", names, "--all-namespaces", "-o", "json")
	cmd.WaitDelay = 5 * time.Second // for pipes that a program it started still holds
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if messages != nil {
		cmd.Stderr = io.MultiWriter(&errs, messages)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("%w", err)
	}
	name := "kubectl get " + names
	in := bufio.NewReader(out)
	_, none := in.Peek(1)
	part = take(name, in)
	_, _ = io.Copy(io.Discard, in) // so that kubectl can end
	err = cmd.Wait()
	if ctx.Err() != nil {
		return ctx.Err(), nil
	}
	if err == nil {
		return part, nil
	}
	err = fmt.Errorf("%s: %w", name, err)
	if messages == nil {
		err = fmt.Errorf("%w: %s", err, strings.ReplaceAll(strings.TrimSpace(errs.String()), "\n", "; "))
	}
	if none != nil {
		return nil, err
	}
	return errors.Join(part, err), nil
}
