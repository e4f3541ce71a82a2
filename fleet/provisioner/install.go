package provisioner

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/kube/crd"
)

// Kind is who is played.
type Kind string

const (
	Karpenter  Kind = "karpenter"
	Autoscaler Kind = "autoscaler"
)

// Kinds are all of them, in order.
func Kinds() []string { return []string{string(Autoscaler), string(Karpenter)} }

//go:embed install/nodepools.yaml
var nodePoolDefinition []byte

//go:embed install/nodeclaims.yaml
var nodeClaimDefinition []byte

//go:embed install/karpenter-role.yaml
var karpenterRole string

//go:embed install/provisioningrequests.yaml
var requestDefinition []byte

//go:embed install/autoscaler-role.yaml
var autoscalerRole string

// Install serves the kinds of who is played, and gives the fleet the rights to play it. The kinds are written anew and open to fields that
// are not played.
func Install(ctx context.Context, admin *rest.Config, kind Kind) error {
	cfg := rest.CopyConfig(admin)
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		return fmt.Errorf("install %s: %w", kind, err)
	}
	definitions, rights := [][]byte{nodePoolDefinition, nodeClaimDefinition}, karpenterRole
	if kind == Autoscaler {
		definitions, rights = [][]byte{requestDefinition}, autoscalerRole
	}
	var kinds []crd.Kind
	for _, text := range definitions {
		k, err := crd.Read(text)
		if err != nil {
			return fmt.Errorf("install %s: %w", kind, err)
		}
		if _, err := k.Apply(ctx, client); err != nil {
			return fmt.Errorf("install %s: %w", kind, err)
		}
		kinds = append(kinds, k)
	}
	for _, text := range strings.Split(rights, "\n---\n") {
		var head struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(text), &head); err != nil {
			return fmt.Errorf("install %s: %w", kind, err)
		}
		err := client.Patch(types.ApplyYAMLPatchType).AbsPath("/apis/rbac.authorization.k8s.io/v1", strings.ToLower(head.Kind)+"s", head.Metadata.Name).
			Param("fieldManager", "berth").Param("force", "true").Body([]byte(text)).Do(ctx).Error()
		if err != nil {
			return fmt.Errorf("install %s: %s: %w", kind, head.Metadata.Name, err)
		}
	}
	for _, k := range kinds {
		if err := k.Served(ctx, client); err != nil {
			return fmt.Errorf("install %s: %w", kind, err)
		}
	}
	return nil
}
