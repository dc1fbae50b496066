// SPDX-License-Identifier: Apache-2.0

// Command freeze records what a tree answers, so that a change of the code can be compared with what was there:
//
//	go run -C tools/research ./freeze -tree DIR -out DIR    record the answers of the tree in DIR
//	go run -C tools/research ./freeze diff A B              list the differences between two records
//
// It builds the commands of the tree and runs them; the same tree gives the same bytes.
package main

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "freeze:", err)
		os.Exit(1)
	}
}

var errDiffer = errors.New("the records differ")

func run(args []string, stdout io.Writer) error {
	if len(args) == 3 && args[0] == "diff" {
		n, err := diff(args[1], args[2], stdout)
		if err == nil && n > 0 {
			err = errDiffer
		}
		return err
	}
	fs := flag.NewFlagSet("freeze", flag.ContinueOnError)
	tree := fs.String("tree", "../..", "`folder` of the tree")
	out := fs.String("out", "", "`folder` for the record")
	only := fs.String("only", "", "record this `kind` alone: decisions, predictions, placement, mig, load, "+
		"files, commands")
	packed := fs.Bool("gzip", false, "compress the files")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *out == "" || fs.NArg() > 0 {
		return errors.New("give -out, or diff and two folders")
	}
	t, err := openTree(*tree)
	if err != nil {
		return err
	}
	defer os.RemoveAll(t.bin)
	if err := os.MkdirAll(*out, 0o777); err != nil {
		return err
	}
	for _, k := range kinds {
		if *only != "" && *only != k.name {
			continue
		}
		questions, err := k.questions(t)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		answers, err := t.answerAll(questions)
		if err == nil {
			err = write(filepath.Join(*out, k.name+".json"), answers, *packed)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		fmt.Fprintf(stdout, "%s: %d answers\n", k.name, len(answers))
	}
	return nil
}

// kinds of questions; the answers to each become one file.
var kinds = []struct {
	name      string
	questions func(*tree) (map[string]question, error)
}{
	{"decisions", decisions}, {"predictions", predictions}, {"placement", placement}, {"mig", migPacks},
	{"load", load}, {"files", files}, {"commands", commands},
}

// question asks the tree and returns what encoding/json can write.
type question func(*tree) (any, error)

// answerAll asks two questions at a time.
func (t *tree) answerAll(questions map[string]question) (map[string]any, error) {
	var (
		wait    sync.WaitGroup
		lock    sync.Mutex
		answers = map[string]any{}
		errs    []error
		slots   = make(chan struct{}, 2)
	)
	for name, ask := range questions {
		wait.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; wait.Done() }()
			a, err := ask(t)
			lock.Lock()
			defer lock.Unlock()
			answers[name] = a
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		}()
	}
	wait.Wait()
	return answers, errors.Join(errs...)
}

// write writes a record, its keys sorted.
func write(file string, answers any, packed bool) error {
	data, err := json.MarshalIndent(answers, "", " ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if !packed {
		return os.WriteFile(file, data, 0o666)
	}
	f, err := os.Create(file + ".gz")
	if err != nil {
		return err
	}
	z, _ := gzip.NewWriterLevel(f, gzip.BestCompression)
	_, err = z.Write(data)
	return errors.Join(err, z.Close(), f.Close())
}
