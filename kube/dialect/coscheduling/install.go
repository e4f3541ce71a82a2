package coscheduling

import (
	_ "embed"
	"strings"

	"github.com/berth-dev/berth/kube/dialect"
)

//go:embed install/podgroup.yaml
var groupDefinition string

//go:embed install/elasticquota.yaml
var quotaDefinition string

//go:embed install/policy.yaml
var policies string

// Install has the project's kinds, written anew and open to fields that Berth does not know, and admission policies that give pods of
// groups and quotas, and RayClusters that ask for a gang, the plugins' scheduler.
func (coscheduling) Install() dialect.Install {
	return dialect.Install{
		Definitions: []string{groupDefinition, quotaDefinition},
		Objects:     append(strings.Split(policies, "\n---\n"), dialect.RayPolicy("coscheduling", rayGangLabel, SchedulerName)...),
		Hides:       []string{"scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3"},
	}
}
