package operators

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// script makes a program of a shell script, and what Run gives it.
func script(t *testing.T, text string) *Operators {
	t.Helper()
	dir := t.TempDir()
	program, ca := filepath.Join(dir, Program), filepath.Join(dir, "ca.crt")
	if err := errors.Join(os.WriteFile(program, []byte("#!/bin/sh\n"+text), 0o700), os.WriteFile(ca, []byte("ca"), 0o600)); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{
		Program: program, Names: []string{"jobset", "lws"}, Dir: dir, Log: log,
		Config: &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "token", TLSClientConfig: rest.TLSClientConfig{CAFile: ca}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); log.Close() })
	return s
}

func said(t *testing.T, s *Operators) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.o.Dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The child has its listener and the end of a pipe, its secret in a variable and not in its arguments, and nothing else of its parent's.
func TestChild(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nobody")
	s := script(t, `echo "$@"; test -S /dev/fd/3 -o -e /dev/fd/3 && test -p /dev/fd/4 && echo files; env | grep -c '^KUBECONFIG='; test ${#BERTH_OPERATORS_SECRET} -ge 32 && echo secret; exit 7`)
	err := s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("got %v", err)
	}
	got := said(t, s)
	want := "run --with jobset,lws --kubeconfig " + s.kubeconfig + " --cert " + s.file(".crt") + " --key " + s.file(".key") + "\nfiles\n0\nsecret\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, ending := range []string{".kubeconfig", ".key"} {
		if info, err := os.Stat(s.file(ending)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", ending, info.Mode(), err)
		}
	}
}

// A child that is told to end does, and one that ends can be run again.
func TestChildIsStopped(t *testing.T) {
	s := script(t, `trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done`)
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		for !strings.HasSuffix(said(t, s), "up\n") {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
		select {
		case <-done:
		case <-time.After(stopFor):
			t.Fatal("it does not end")
		}
	}
	if got := said(t, s); got != "up\nbye\nup\nbye\n" {
		t.Errorf("got %q", got)
	}
}

func TestRefusedName(t *testing.T) {
	s := script(t, `echo 'berth-operators: there is no operator "x": choose from jobset, lws' >&2; echo more >&2; exit 1`)
	_, err := s.manifests(t.Context())
	if want := `--with jobset,lws: there is no operator "x": choose from jobset, lws`; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

// server keeps objects by path, as an API server does.
type server struct {
	mu      sync.Mutex
	objects map[string]map[string]any
	calls   []string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, r.Method+" "+filepath.Base(r.URL.Path))
	status := func(code int, reason string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"`+reason+`","code":409}`)
	}
	var object map[string]any
	json.NewDecoder(r.Body).Decode(&object)
	switch r.Method {
	case http.MethodPost:
		name, _ := object["metadata"].(map[string]any)["name"].(string)
		if s.objects[r.URL.Path+"/"+name] != nil {
			status(http.StatusConflict, "AlreadyExists")
			return
		}
		s.objects[r.URL.Path+"/"+name] = object
	case http.MethodPut:
		s.objects[r.URL.Path] = object
	case http.MethodGet:
		object = s.objects[r.URL.Path]
	case http.MethodDelete:
		if r.URL.Query().Get("labelSelector") != label {
			status(http.StatusConflict, "Conflict") // nothing but ours goes
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(object)
}

func admin(t *testing.T, s *server) rest.Interface {
	t.Helper()
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	c, err := rest.RESTClientFor(&rest.Config{Host: h.URL, APIPath: "/", QPS: -1, ContentConfig: rest.ContentConfig{GroupVersion: &schema.GroupVersion{}, NegotiatedSerializer: scheme.Codecs}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What is there is made like what the child says; kinds that it has no business with are refused.
func TestInstall(t *testing.T) {
	const object = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"KIND","metadata":{"name":"NAME","labels":{"operators.berth.dev/name":"jobset"}}}`
	makes := func(kind, name string) string {
		return `echo '[` + strings.NewReplacer("KIND", kind, "NAME", name).Replace(object) + `]'`
	}
	world := &server{objects: map[string]map[string]any{kinds["ClusterRole"] + "/old": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": "old", "resourceVersion": "7"}}}}
	for name, want := range map[string]string{"new": "", "old": "7"} {
		if err := script(t, makes("ClusterRole", name)).Install(t.Context(), admin(t, world)); err != nil {
			t.Fatal(err)
		}
		meta, _ := world.objects[kinds["ClusterRole"]+"/"+name]["metadata"].(map[string]any)
		if got, _ := meta["resourceVersion"].(string); got != want || meta["labels"] == nil {
			t.Errorf("%s: got %v", name, meta)
		}
	}
	if !slices.Contains(world.calls, "DELETE mutatingwebhookconfigurations") {
		t.Errorf("what earlier runs had is left: %v", world.calls)
	}
	for _, text := range []string{makes("Secret", "x"), makes("ClusterRole", ""), `echo '{}'`, `echo`} {
		if err := script(t, text).Install(t.Context(), admin(t, world)); err == nil {
			t.Errorf("%s: nobody objects", text)
		}
	}
}

func TestFind(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Find(); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("got %v", err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, Program)
	if err := os.WriteFile(program, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	if got, err := Find(); got != program || err != nil {
		t.Errorf("got %s %v", got, err)
	}
}
