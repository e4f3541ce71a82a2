package answer

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// configurations is the list of one. It names nothing of the cluster but labels of nodes and GPU models, so that who may see
// the workloads of a namespace may have it for that namespace.
func (a *asking) configurations() (any, error) {
	if err := a.noWatch("configurations"); err != nil {
		return nil, err
	}
	c, err := a.configured("list", "")
	if err != nil {
		return nil, err
	}
	if a.wantsTable() {
		return configurationTable(c), nil
	}
	return ConfigurationList{TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion, Kind: "ConfigurationList"}, Items: []Configuration{c}}, nil
}

func (a *asking) configuration() (any, error) {
	name := a.PathValue("name")
	c, err := a.configured("get", name)
	switch {
	case err != nil:
		return nil, err
	case c.Name != name:
		return nil, notFound("configurations", name)
	case a.wantsTable():
		return configurationTable(c), nil
	}
	return c, nil
}

func (a *asking) configured(verb, name string) (Configuration, error) {
	if err := a.may(verb, "configurations", a.PathValue("namespace"), name); err != nil {
		return Configuration{}, err
	}
	source, err := a.source()
	if err != nil {
		return Configuration{}, err
	}
	c := source.Configuration()
	c.TypeMeta = metav1.TypeMeta{APIVersion: GroupVersion, Kind: "Configuration"}
	return c, nil
}
