package main

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/util/yaml"
	kyaml "sigs.k8s.io/yaml"
)

// copied has the files of each operator's module that have to be installed. They are no part of this repository: scripts/operators
// copies them from the module cache before this package is compiled.
//
//go:embed manifests
var copied embed.FS

// label marks what is installed for an operator, so that Berth can take back what a later start does not ask for.
const label = "operators.berth.dev/name"

// target is where the API server finds the webhooks, what they serve with, and who the controllers are.
type target struct {
	url    string // of all webhooks: the secret, the operator's name and a path follow
	secret string
	ca     []byte
	user   string
}

// manifests are what has to be installed for the operator: definitions first.
func (o operator) manifests(to target) ([]map[string]any, error) {
	var out []map[string]any
	for _, name := range o.files.crds {
		read, err := o.read(name)
		if err != nil {
			return nil, err
		}
		for _, crd := range read {
			withoutDescriptions(crd)
			out = append(out, o.marked(crd))
		}
	}
	for _, crd := range o.own {
		out = append(out, o.marked(crd))
	}
	role, err := o.role(to.user)
	if err != nil {
		return nil, err
	}
	hooks, err := o.hooks(to)
	return slices.Concat(out, role, hooks), err
}

// role gives the user what the project's own installation gives its controllers, but for what they need to rotate certificates
// of their webhooks, which Berth makes.
func (o operator) role(user string) ([]map[string]any, error) {
	rules := slices.Clone(o.rules)
	for _, name := range o.files.roles {
		read, err := o.read(name)
		if err != nil {
			return nil, err
		}
		for _, role := range read {
			if role["kind"] == "ClusterRole" {
				more, _ := role["rules"].([]any)
				rules = append(rules, more...)
			}
		}
	}
	rules = slices.DeleteFunc(rules, func(rule any) bool {
		r, _ := rule.(map[string]any)
		return holds(r["apiGroups"], "admissionregistration.k8s.io") || holds(r["resources"], "secrets") && !o.secrets || holds(r["resources"], "pods/exec") ||
			slices.ContainsFunc(o.without, func(group string) bool { return holds(r["apiGroups"], group) })
	})
	if len(rules) == 0 {
		return nil, errors.New("its module has no ClusterRole with rules")
	}
	if o.stamped {
		rules = append(rules, map[string]any{"apiGroups": []any{"berth.dev"}, "resources": []any{"users"}, "verbs": []any{"stamp"}})
	}
	name := "berth-operators-" + o.name
	const group = "rbac.authorization.k8s.io"
	head := func(kind string) map[string]any {
		return o.marked(map[string]any{"apiVersion": group + "/v1", "kind": kind, "metadata": map[string]any{"name": name}})
	}
	role, binding := head("ClusterRole"), head("ClusterRoleBinding")
	role["rules"] = rules
	binding["roleRef"] = map[string]any{"apiGroup": group, "kind": "ClusterRole", "name": name}
	binding["subjects"] = []any{map[string]any{"apiGroup": group, "kind": "User", "name": user}}
	return []map[string]any{role, binding}, nil
}

func holds(list any, want string) bool {
	items, _ := list.([]any)
	return slices.Contains(items, any(want))
}

// hooks are the project's webhook configurations, patched as its own installation patches them. The API server calls them by
// address instead of through a Service: the cluster has no network of pods.
func (o operator) hooks(to target) ([]map[string]any, error) {
	if o.files.webhooks == "" {
		return o.ownHooks(to), nil
	}
	read, err := o.read(o.files.webhooks)
	if err != nil {
		return nil, err
	}
	for i, c := range read {
		kind, _ := c["kind"].(string)
		if c, err = o.patched(c, o.files.patches[kind]); err != nil {
			return nil, err
		}
		c["metadata"] = map[string]any{"name": "berth-operators-" + o.name}
		hooks, _ := c["webhooks"].([]any)
		hooks = slices.DeleteFunc(hooks, func(h any) bool { return o.missing(h) })
		for _, hook := range hooks {
			h, _ := hook.(map[string]any)
			client, _ := h["clientConfig"].(map[string]any)
			service, _ := client["service"].(map[string]any)
			at, _ := service["path"].(string)
			if at == "" {
				return nil, fmt.Errorf("a webhook of %s has no path", o.files.webhooks)
			}
			h["clientConfig"] = map[string]any{"url": to.url + "/" + to.secret + "/" + o.name + at, "caBundle": to.ca}
		}
		c["webhooks"] = hooks
		read[i] = o.marked(c)
	}
	return read, nil
}

// ownHooks is the webhook configuration of an operator of Berth's own.
func (o operator) ownHooks(to target) []map[string]any {
	var hooks []any
	for _, h := range o.checked {
		at := "/validate-" + strings.ReplaceAll(h.group, ".", "-") + "-" + h.version + "-" + strings.ToLower(h.kind)
		hooks = append(hooks, map[string]any{
			"name": h.plural + "." + h.group, "admissionReviewVersions": []any{"v1"}, "sideEffects": "None", "failurePolicy": "Fail",
			"clientConfig": map[string]any{"url": to.url + "/" + to.secret + "/" + o.name + at, "caBundle": to.ca},
			"rules": []any{map[string]any{
				"apiGroups": []any{h.group}, "apiVersions": []any{h.version}, "resources": []any{h.plural}, "operations": []any{"CREATE"},
			}},
		})
	}
	if len(hooks) == 0 {
		return nil
	}
	return []map[string]any{o.marked(map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
		"metadata": map[string]any{"name": "berth-operators-" + o.name}, "webhooks": hooks,
	})}
}

// missing says whether a webhook is for kinds that are not installed.
func (o operator) missing(hook any) bool {
	h, _ := hook.(map[string]any)
	rules, _ := h["rules"].([]any)
	for _, rule := range rules {
		r, _ := rule.(map[string]any)
		groups, _ := r["apiGroups"].([]any)
		for _, group := range groups {
			g, _ := group.(string)
			if g == "" || slices.ContainsFunc(o.files.crds, func(f string) bool {
				plural, ok := strings.CutPrefix(strings.TrimSuffix(path.Base(f), ".yaml"), g+"_")
				return ok && holds(r["resources"], plural)
			}) {
				return false
			}
		}
	}
	return true
}

func (o operator) patched(object map[string]any, file string) (map[string]any, error) {
	if file == "" {
		return object, nil
	}
	text, err := copied.ReadFile(o.file(file))
	if err != nil {
		return nil, err
	}
	text, err = kyaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	before, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return nil, fmt.Errorf("apply %s: %w", file, err)
	}
	var out map[string]any
	return out, json.Unmarshal(after, &out)
}

func (o operator) file(name string) string { return path.Join("manifests", o.name, name) }

// read returns the objects of a file.
func (o operator) read(name string) (out []map[string]any, err error) {
	f, err := copied.Open(o.file(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for d := yaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		var object map[string]any
		if err := d.Decode(&object); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if len(object) > 0 {
			out = append(out, object)
		}
	}
}

func (o operator) marked(object map[string]any) map[string]any {
	meta, _ := object["metadata"].(map[string]any)
	labels, ok := meta["labels"].(map[string]any)
	if !ok {
		labels = make(map[string]any)
	}
	labels["app.kubernetes.io/managed-by"], labels[label] = "berth", o.name
	meta["labels"] = labels
	return object
}

// withoutDescriptions drops the texts of a schema: they are most of a definition's size, and the API server keeps several copies.
func withoutDescriptions(at any) {
	switch v := at.(type) {
	case map[string]any:
		if _, text := v["description"].(string); text {
			delete(v, "description")
		}
		for _, below := range v {
			withoutDescriptions(below)
		}
	case []any:
		for _, below := range v {
			withoutDescriptions(below)
		}
	}
}
