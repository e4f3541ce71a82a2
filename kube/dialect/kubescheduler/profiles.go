package kubescheduler

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// ConfigKind is the kind of the configuration file of kube-scheduler and of schedulers that are built from it.
const ConfigKind = "KubeSchedulerConfiguration"

// Profiles are the schedulerNames that a configuration file serves; ok says whether it is one. A profile without a name, and a file
// without a profile, serve the default (kubernetes v1.37.1, pkg/scheduler/apis/config/v1/defaults.go).
func Profiles(file string) (names []string, ok bool) {
	var c struct {
		Kind     string
		Profiles []struct{ SchedulerName *string }
	}
	if !strings.Contains(file, ConfigKind) || yaml.Unmarshal([]byte(file), &c) != nil || c.Kind != ConfigKind {
		return nil, false
	}
	for _, p := range c.Profiles {
		name := corev1.DefaultSchedulerName
		if p.SchedulerName != nil {
			name = *p.SchedulerName
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		names = []string{corev1.DefaultSchedulerName}
	}
	return names, true
}
