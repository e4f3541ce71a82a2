package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Whoever does not know the secret is refused, whatever they ask for.
func TestGuarded(t *testing.T) {
	const secret = "0123456789abcdef"
	h := guarded(secret, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for path, want := range map[string]int{
		"/": 403, "/healthz": 403, "//" + secret + "/x": 403, "/" + secret[:15] + "/x": 403, "/x/../" + secret: 403,
		"/" + secret + "/jobset/mutate": 418,
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/", strings.NewReader("{}"))
		r.URL.Path = path
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

// What has to be installed has the rights of the project's role, less those over webhooks and Secrets, and webhooks by address.
func TestManifests(t *testing.T) {
	list, err := named("lws,jobset")
	if err != nil || len(list) != 2 || list[0].name != "jobset" {
		t.Fatalf("got %v %v", list, err)
	}
	if list, err = named("trainjob"); err != nil || len(list) != 2 || list[0].name != "jobset" {
		t.Fatalf("trainjob runs %v %v, want jobset too", list, err)
	}
	for _, o := range all {
		objects, err := o.manifests(target{url: "https://127.0.0.1:1", secret: "s", ca: []byte("ca"), user: "u"})
		if err != nil {
			t.Fatal(err)
		}
		count := make(map[string]int)
		for _, object := range objects {
			kind := object["kind"].(string)
			count[kind]++
			if meta := object["metadata"].(map[string]any); meta["labels"].(map[string]any)[label] != o.name {
				t.Errorf("%s %v is not marked", kind, meta["name"])
			}
			rules, _ := object["rules"].([]any)
			for _, rule := range rules {
				r := rule.(map[string]any)
				if holds(r["resources"], "secrets") && !o.secrets || holds(r["apiGroups"], "admissionregistration.k8s.io") || holds(r["resources"], "*") || holds(r["resources"], "pods/exec") || holds(r["verbs"], "*") && !holds(r["apiGroups"], "kubeflow.org") {
					t.Errorf("%s has %v", o.name, r)
				}
			}
			hooks, _ := object["webhooks"].([]any)
			for _, hook := range hooks {
				h := hook.(map[string]any)
				if url, _ := h["clientConfig"].(map[string]any)["url"].(string); !strings.HasPrefix(url, "https://127.0.0.1:1/s/"+o.name+"/") {
					t.Errorf("%v is called at %q", h["name"], url)
				}
				if strings.Contains(h["name"].(string), "pod") && h["objectSelector"] == nil {
					t.Errorf("%v is called for every pod", h["name"])
				}
			}
		}
		if count["CustomResourceDefinition"] != len(o.files.crds)+len(o.own) || count["ClusterRole"] != 1 || count["ClusterRoleBinding"] != 1 {
			t.Errorf("%s: %v", o.name, count)
		}
		if (o.files.webhooks != "" || len(o.checked) > 0) && count["ValidatingWebhookConfiguration"] != 1 {
			t.Errorf("%s: %v", o.name, count)
		}
	}
	if _, err := named("jobset,nobody"); err == nil || !strings.Contains(err.Error(), `no operator "nobody": choose from jobset, lws`) {
		t.Errorf("got %v", err)
	}
}
