package inspect

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/berth-dev/berth/diagnose/facts"
)

// served is what the API server says that it serves.
type served struct {
	versions map[schema.GroupResource][]string // the server's favourite first
	failed   map[string]error                  // by group: what it could not say
	err      error                             // nothing could be said
	more     []beside                          // kinds that are not in the table
}

// discover asks for everything at once, or group by group where the server is too old for that.
func (c *cluster) discover(ctx context.Context, patience time.Duration) served {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	_, lists, err := c.discovery.ServerGroupsAndResourcesWithContext(ctx)
	s := served{versions: make(map[schema.GroupResource][]string), failed: make(map[string]error)}
	groups, some := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !some {
		s.err = err
		return s
	}
	for gv, err := range groups {
		s.failed[gv.Group] = err
	}
	for _, list := range lists {
		s.add(list)
	}
	return s
}

func (s *served) add(list *metav1.APIResourceList) {
	gv, err := schema.ParseGroupVersion(list.GroupVersion)
	if err != nil {
		return
	}
	for _, r := range list.APIResources {
		gr := schema.GroupResource{Group: gv.Group, Resource: r.Name}
		s.versions[gr] = append(s.versions[gr], gv.Version)
		s.addBeside(gv, &r)
	}
}

// version is the one to read the kind in: the one expected, or else the server's favourite. "": the kind is not
// served. The error says that this could not be found out.
func (s *served) version(k *facts.KindInfo) (string, error) {
	if s.err != nil {
		return "", s.err
	}
	first := ""
	for i, v := range s.versions[schema.GroupResource{Group: k.Group, Resource: k.Resource}] {
		if v == k.Version {
			return v, nil
		}
		if i == 0 {
			first = v
		}
	}
	if first == "" {
		return "", s.failed[k.Group]
	}
	return first, nil
}
