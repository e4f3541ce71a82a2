package answer

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// groups, group and resources are how clients learn what is served. They name nothing of the cluster, so whoever is
// somebody may read them.
func (a *asking) groups() (any, error) {
	return metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{apiGroup()}}, nil
}

func (a *asking) group() (any, error) {
	g := apiGroup()
	g.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}
	return g, nil
}

func apiGroup() metav1.APIGroup {
	v := metav1.GroupVersionForDiscovery{GroupVersion: GroupVersion, Version: Version}
	return metav1.APIGroup{Name: Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v}
}

// resources can be read and nothing else, so that controllers that delete or follow all there is pass them over.
func (a *asking) resources() (any, error) {
	verbs := metav1.Verbs{"get", "list"}
	return metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: GroupVersion,
		APIResources: []metav1.APIResource{
			{Name: "configurations", SingularName: "configuration", Kind: "Configuration", Verbs: verbs},
			{Name: PageResource, Kind: "Page", Namespaced: true, Verbs: metav1.Verbs{"get"}},
			{Name: "queues", SingularName: "queue", Kind: "Queue", Verbs: verbs},
			{Name: "workloads", SingularName: "workload", Kind: "Workload", Namespaced: true, Verbs: verbs},
		},
	}, nil
}

// schema is an OpenAPI document that describes nothing: an API server that finds none keeps asking, and complains.
func (a *asking) schema() (any, error) {
	return map[string]any{
		"swagger": "2.0", "info": map[string]string{"title": "Answers of Berth's scheduler", "version": Version}, "paths": map[string]any{},
	}, nil
}

// wantsTable says whether the client would rather print than read, as kubectl does.
func (a *asking) wantsTable() bool {
	accept := a.Header.Get("Accept")
	return strings.Contains(accept, "as=Table") && strings.Contains(accept, "v=v1;")
}
