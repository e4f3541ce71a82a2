package home

import (
	"os"
	"strings"
	"testing"
	"unicode"
)

// FuzzRecord reads what may be in cluster.json. Whatever it is, what comes out can be printed, listened on and used as a
// file name, and is the same after it was saved.
func FuzzRecord(f *testing.F) {
	for _, text := range []string{
		`{"format":1,"kubernetes":"v1.37.1","name":"a","apiPort":6443,"pid":7,"started":"2026-11-15T00:00:00Z","ready":true,"fleet":"lab"}`,
		`{"format":2,"kubernetes":"v2","name":"../x"}`, `{"format":1,"name":"../x"}`, `{"format":1,"name":"a","apiPort":-1}`, `{"format":1,"name":"a","pid":-9}`,
		"{\"format\":1,\"name\":\"a\",\"fleet\":\"\\u001b[2J\"}", `{"format":1,"name":"a","started":"soon"}`, `null`, `[]`, `{`, "",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := Dir{Path: t.TempDir()}
		if err := os.WriteFile(d.Record(), b, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := d.Load()
		if err != nil {
			return
		}
		for _, s := range []string{r.Name, r.Kubernetes, r.Fleet, r.Started} {
			if strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) {
				t.Errorf("%q can move a terminal's cursor", s)
			}
		}
		if r.Format != Format {
			if err := d.Compatible(r, r.Kubernetes); err == nil {
				t.Errorf("format %d is taken for ours", r.Format)
			}
			return
		}
		if err := CheckName(r.Name); err != nil {
			t.Error(err)
		}
		if r.APIPort < 0 || r.APIPort > 65535 || r.PID < 0 || r.Nodes < 0 {
			t.Errorf("%+v", r)
		}
		if err := d.Save(r); err != nil {
			t.Fatal(err)
		}
		if again, err := d.Load(); err != nil || again != r {
			t.Errorf("saved %+v, read %+v (%v)", r, again, err)
		}
	})
}
