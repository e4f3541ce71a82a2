// Package crd gives an API server one of Berth's kinds: it applies the CustomResourceDefinition that api/v1alpha1
// embeds and waits until the kind is served. It does not know what a kind is for, and it removes nothing. Those
// who install call it, with administrator rights: fleet for Pools, kube/scheduler for BerthQueues.
package crd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

const (
	// manager is the name under which Berth owns what it applies.
	manager = "berth"
	// poll is how often a new kind is asked for: it takes some tens of milliseconds until it is served.
	poll = 10 * time.Millisecond
	// limit is when to give up on that.
	limit = 30 * time.Second
)

// Kind is a CustomResourceDefinition that can be installed.
type Kind struct {
	Path string // of the definition in the API server
	list string // path of the kind's objects
	text []byte
}

// Read takes the definition as YAML. Of several versions the one that is stored is asked for, and has to be served.
func Read(text []byte) (Kind, error) {
	var d struct {
		Metadata struct{ Name string }
		Spec     struct {
			Group    string
			Names    struct{ Plural string }
			Versions []struct {
				Name            string
				Served, Storage bool
			}
		}
	}
	if err := yaml.Unmarshal(text, &d); err != nil {
		return Kind{}, fmt.Errorf("read definition: %w", err)
	}
	stored := ""
	for _, v := range d.Spec.Versions {
		if v.Storage && v.Served || len(d.Spec.Versions) == 1 {
			stored = v.Name
		}
	}
	if d.Metadata.Name == "" || d.Spec.Group == "" || d.Spec.Names.Plural == "" || stored == "" {
		return Kind{}, errors.New("read definition: want a name, a group, a plural and a version that is served and stored")
	}
	return Kind{
		Path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + d.Metadata.Name,
		list: path.Join("/apis", d.Spec.Group, stored, d.Spec.Names.Plural),
		text: text,
	}, nil
}

// Apply makes the definition what it should be, whether or not it is there, and returns its annotations.
func (k Kind) Apply(ctx context.Context, client rest.Interface) (map[string]string, error) {
	got, err := client.Patch(types.ApplyYAMLPatchType).AbsPath(k.Path).SetHeader("Accept", runtime.ContentTypeJSON).
		Param("fieldManager", manager).Param("force", "true").Body(k.text).Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("apply %s: %w", k.Path, err)
	}
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(got, &object); err != nil {
		return nil, fmt.Errorf("read back %s: %w", k.Path, err)
	}
	return object.Annotations, nil
}

// Served waits until the API server answers for the kind's objects. While it sets up a new kind it answers "not
// found", then "too many requests, come back after a whole second", which is not waited out.
func (k Kind) Served(ctx context.Context, client rest.Interface) error {
	err := wait.PollUntilContextTimeout(ctx, poll, limit, true, func(ctx context.Context) (bool, error) {
		err := client.Get().AbsPath(k.list).SetHeader("Accept", runtime.ContentTypeJSON).Param("limit", "1").MaxRetries(0).Do(ctx).Error()
		if apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w", k.list, err)
	}
	return nil
}
