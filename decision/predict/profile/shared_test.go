package profile_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict/profile"
)

// The schema knows every key of a row, and no other.
func TestRowSchema(t *testing.T) {
	t.Parallel()
	type object struct {
		Properties map[string]object
		Items      *object
	}
	var schema object
	if err := json.Unmarshal(profile.RowSchema(), &schema); err != nil {
		t.Fatal(err)
	}
	var check func(path string, s object, of reflect.Type)
	check = func(path string, s object, of reflect.Type) {
		var keys []string
		var add func(of reflect.Type)
		add = func(of reflect.Type) {
			for i := range of.NumField() {
				f := of.Field(i)
				name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
				switch {
				case f.Anonymous:
					add(f.Type)
				case name != "":
					keys = append(keys, name)
					if sub := s.Properties[name]; f.Type.Kind() == reflect.Struct && len(sub.Properties) > 0 && !strings.Contains(f.Type.Name(), "Value") {
						check(path+"."+name, sub, f.Type)
					}
				}
			}
		}
		add(of)
		for _, k := range keys {
			if _, ok := s.Properties[k]; !ok {
				t.Errorf("the schema lacks %s.%s", path, k)
			}
		}
		for k := range s.Properties {
			if !slices.Contains(keys, k) {
				t.Errorf("the schema has %s.%s, which no row has", path, k)
			}
		}
	}
	check("row", *schema.Items, reflect.TypeFor[profile.Row]())
}

// What must not be given to others is found, and public names are let through.
func TestCheckShared(t *testing.T) {
	t.Parallel()
	rows, err := profile.LoadRows("../testdata/h200-colocation.json")
	if err != nil {
		t.Fatal(err)
	}
	rows = rows[:4]
	for i := range rows {
		rows[i].GPUName = "NVIDIA H200"
	}
	if err := rows.CheckShared(); err != nil {
		t.Error(err)
	}
	for change, want := range map[string]string{
		"http://10.0.0.7:8000": "an address", "llm.chat.svc": "a host's name", "anna@firm.example": "a mail address", "/home/anna/models/x": "a path",
		"chat-7f9c5d6b8d-x2v7k": "a pod's name", "GPU-01234567-89ab": "a GPU's UUID", "node-3.eu.corp": "a host's name",
	} {
		bad := slices.Clone(rows)
		bad[2].Case = "beside " + change
		if err := bad.CheckShared(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "[2].case") {
			t.Errorf("%q: %v", change, err)
		}
	}
	bad := slices.Clone(rows)
	bad[1].Engine, bad[3].GPUName = "", ""
	if err := bad.CheckShared(); err == nil || !strings.Contains(err.Error(), "[1].engine") || !strings.Contains(err.Error(), "[3].gpu_name") {
		t.Error(err)
	}
	for _, name := range []string{"meta-llama/Llama-3.1-8B", "vllm 0.9.1, fp8", "chat8b+fft", "solo 1b c1"} {
		good := slices.Clone(rows)
		good[0].Server.Model = name
		if err := good.CheckShared(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}
