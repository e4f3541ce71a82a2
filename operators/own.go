package main

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// onCreate is a webhook that checks what is created.
type onCreate[T runtime.Object] func(T) error

func (c onCreate[T]) ValidateCreate(_ context.Context, o T) (admission.Warnings, error) {
	return nil, c(o)
}
func (onCreate[T]) ValidateUpdate(context.Context, T, T) (admission.Warnings, error) { return nil, nil }
func (onCreate[T]) ValidateDelete(context.Context, T) (admission.Warnings, error)    { return nil, nil }

// definition is a kind of another project's, whose fields are not checked: nobody has its schema here.
func definition(group, version, kind, plural string, short ...string) map[string]any {
	loose := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	names := map[string]any{"kind": kind, "plural": plural, "singular": strings.ToLower(kind), "listKind": kind + "List"}
	if len(short) > 0 {
		var list []any
		for _, s := range short {
			list = append(list, s)
		}
		names["shortNames"] = list
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": names,
			"versions": []any{map[string]any{
				"name": version, "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": loose, "status": loose}}},
			}},
		},
	}
}

// column is one that kubectl get prints; wide: with -o wide alone.
type column struct {
	name, kind, path string
	wide             bool
}

// printed is the definition with the columns that the project's own has.
func printed(d map[string]any, columns ...column) map[string]any {
	var list []any
	for _, c := range columns {
		one := map[string]any{"name": c.name, "type": c.kind, "jsonPath": c.path}
		if c.wide {
			one["priority"] = int64(1)
		}
		list = append(list, one)
	}
	version := d["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	version["additionalPrinterColumns"] = list
	return d
}

// clusterWide is the definition of a kind without namespaces.
func clusterWide(d map[string]any) map[string]any {
	d["spec"].(map[string]any)["scope"] = "Cluster"
	return d
}

// rule is one of a role.
func rule(group, resource string, verbs ...string) any {
	var list []any
	for _, v := range verbs {
		list = append(list, v)
	}
	return map[string]any{"apiGroups": []any{group}, "resources": []any{resource}, "verbs": list}
}
