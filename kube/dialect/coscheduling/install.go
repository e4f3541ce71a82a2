package coscheduling

import (
	_ "embed"

	"github.com/berth-dev/berth/kube/dialect"
)

//go:embed install/podgroup.yaml
var groupDefinition string

//go:embed install/elasticquota.yaml
var quotaDefinition string

// Install has the project's kinds, written anew and open to fields that Berth does not know.
func (coscheduling) Install() dialect.Install {
	return dialect.Install{
		Definitions: []string{groupDefinition, quotaDefinition},
		Hides:       []string{"scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3"},
	}
}
