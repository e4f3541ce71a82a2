package crd

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func TestReadRefuses(t *testing.T) {
	for _, text := range []string{"", "not: [yaml", "metadata: {name: x}", "metadata: {name: x}\nspec: {group: g, names: {plural: p}, versions: [{name: v1}, {name: v2}]}"} {
		if k, err := Read([]byte(text)); err == nil {
			t.Errorf("%q is taken as %+v", text, k)
		}
	}
}

// Of two versions the one that is stored is asked for.
func TestReadTwoVersions(t *testing.T) {
	k, err := Read([]byte("metadata: {name: x}\nspec: {group: g, names: {plural: p}, versions: [{name: v1, served: true}, {name: v2, served: true, storage: true}]}"))
	if err != nil || k.list != "/apis/g/v2/p" {
		t.Errorf("got %+v, %v", k, err)
	}
}

// A kind that is not served yet is asked for again; one that may not be read is not.
func TestInstall(t *testing.T) {
	const definition, objects = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/berthqueues.berth.dev", "/apis/berth.dev/v1alpha1/berthqueues"
	for _, c := range []struct {
		name    string
		answers []int // to lists, the last for good
		want    []string
		failure string
	}{
		{"at once", []int{200}, []string{"PATCH " + definition, "GET " + objects}, ""},
		{"later", []int{404, 429, 200}, []string{"PATCH " + definition, "GET " + objects, "GET " + objects, "GET " + objects}, ""},
		{"forbidden", []int{403}, []string{"PATCH " + definition, "GET " + objects}, "wait for " + objects},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				got = append(got, r.Method+" "+r.URL.Path)
				if accept := r.Header.Get("Accept"); accept != "application/json" {
					t.Errorf("%s wants %s, and gets what it cannot read", r.Method, accept)
				}
				w.Header().Set("Content-Type", "application/json")
				if r.Method == http.MethodPatch {
					io.WriteString(w, `{"metadata":{"annotations":{"a":"b"}}}`)
					return
				}
				w.WriteHeader(c.answers[0])
				c.answers = c.answers[min(1, len(c.answers)-1):]
				io.WriteString(w, `{}`)
			})
			annotations, err := install(t.Context(), client)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(map[string]string{"a": "b"}, annotations); diff != "" {
				t.Error(diff)
			}
			if (err == nil) != (c.failure == "") || err != nil && !strings.Contains(err.Error(), c.failure) {
				t.Errorf("error %v, want %q", err, c.failure)
			}
		})
	}
}

func install(ctx context.Context, client rest.Interface) (map[string]string, error) {
	k, err := Read(v1alpha1.QueueCRD)
	if err != nil {
		return nil, err
	}
	annotations, err := k.Apply(ctx, client)
	if err != nil {
		return nil, err
	}
	return annotations, k.Served(ctx, client)
}

func serve(t *testing.T, h http.HandlerFunc) rest.Interface {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client.Discovery().RESTClient()
}
