// Package policy holds the admission policies that the API server enforces for Berth, as manifests, and applies them.
// The policies are CEL that runs inside the API server, so there is no webhook that can be down. The package does not
// decide anything itself: each manifest says which rule it guards, and the rule's owner (kube/scheduler) holds it also
// where the policies are missing. kube/scheduler calls Install with administrator rights.
package policy

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

//go:embed manifests/*.yaml
var files embed.FS

// manager is the name under which Berth owns what it applies.
const manager = "berth"

// resources are the kinds that a manifest may hold.
var resources = map[string]string{
	"MutatingAdmissionPolicy":          "mutatingadmissionpolicies",
	"MutatingAdmissionPolicyBinding":   "mutatingadmissionpolicybindings",
	"ValidatingAdmissionPolicy":        "validatingadmissionpolicies",
	"ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}

// Manifest is one object: where the API server keeps it, and its YAML.
type Manifest struct {
	Path string
	Text []byte
}

// Manifests returns all policies and their bindings, in the order of file names, each policy before its binding.
func Manifests() ([]Manifest, error) {
	names, err := fs.Glob(files, "manifests/*.yaml")
	if err != nil {
		return nil, err
	}
	var out []Manifest
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for _, document := range strings.Split(string(text), "\n---\n") {
			m, err := read([]byte(document))
			if err != nil {
				return nil, fmt.Errorf("policy: %s: %w", name, err)
			}
			out = append(out, m)
		}
	}
	return out, nil
}

func read(text []byte) (Manifest, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string
		Metadata   struct{ Name string }
	}
	if err := yaml.Unmarshal(text, &head); err != nil {
		return Manifest{}, err
	}
	resource := resources[head.Kind]
	if resource == "" || head.APIVersion != "admissionregistration.k8s.io/v1" || head.Metadata.Name == "" {
		return Manifest{}, fmt.Errorf("%s %s %q is not an admission policy", head.APIVersion, head.Kind, head.Metadata.Name)
	}
	return Manifest{Path: "/apis/" + head.APIVersion + "/" + resource + "/" + head.Metadata.Name, Text: text}, nil
}

// Install makes the policies of the cluster what they should be, whether or not they are there. InForce says when they count.
func Install(ctx context.Context, client rest.Interface) error {
	list, err := Manifests()
	if err != nil {
		return err
	}
	early := slices.DeleteFunc(slices.Clone(list), func(m Manifest) bool { return probed(m.Path) })
	late := slices.DeleteFunc(list, func(m Manifest) bool { return !probed(m.Path) })
	list = append(early, late...)
	for _, m := range list {
		err := client.Patch(types.ApplyYAMLPatchType).AbsPath(m.Path).SetHeader("Accept", runtime.ContentTypeJSON).
			Param("fieldManager", manager).Param("force", "true").Body(m.Text).Do(ctx).Error()
		if err != nil {
			return fmt.Errorf("policy: apply %s: %w", m.Path, err)
		}
	}
	return nil
}
