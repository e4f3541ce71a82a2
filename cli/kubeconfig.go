package cli

import (
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berth-dev/berth/controlplane/home"
)

// contextName is what a cluster is called in the user's own kubeconfig.
func contextName(name string) string {
	if name == defaultName {
		return name
	}
	return "berth-" + name
}

// mergeKubeconfig adds the cluster to the user's kubeconfig and selects it, if asked.
func (o *upOptions) mergeKubeconfig(dir home.Dir) error {
	if !o.merge {
		return nil
	}
	ours, err := clientcmd.LoadFromFile(dir.Kubeconfig())
	if err != nil {
		return err
	}
	path, theirs, err := userKubeconfig()
	if err != nil {
		return err
	}
	entry := contextName(o.name)
	theirs.Clusters[entry] = ours.Clusters[o.name]
	theirs.AuthInfos[entry] = ours.AuthInfos[o.name]
	theirs.Contexts[entry] = &clientcmdapi.Context{Cluster: entry, AuthInfo: entry}
	theirs.CurrentContext = entry
	return clientcmd.WriteToFile(*theirs, path)
}

// unmergeKubeconfig takes a purged cluster out of the user's kubeconfig again, if the
// entry there is this cluster's.
func unmergeKubeconfig(name string, dir home.Dir) error {
	ours, err := clientcmd.LoadFromFile(dir.Kubeconfig())
	if err != nil {
		return nil // never came up: was never merged
	}
	path, theirs, err := userKubeconfig()
	if err != nil {
		return nil // not ours to judge
	}
	entry := contextName(name)
	their, our := theirs.AuthInfos[entry], ours.AuthInfos[name]
	if their == nil || our == nil || their.Token != our.Token {
		return nil
	}
	delete(theirs.Clusters, entry)
	delete(theirs.AuthInfos, entry)
	delete(theirs.Contexts, entry)
	if theirs.CurrentContext == entry {
		theirs.CurrentContext = ""
	}
	return clientcmd.WriteToFile(*theirs, path)
}

// userKubeconfig is the file that kubectl itself would write to, and what is in it.
func userKubeconfig() (path string, cfg *clientcmdapi.Config, err error) {
	path = clientcmd.NewDefaultPathOptions().GetDefaultFilename()
	cfg, err = clientcmd.LoadFromFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, clientcmdapi.NewConfig(), nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("read your kubeconfig %s: %w", path, err)
	}
	return path, cfg, nil
}

// clientConfig is how commands reach a running cluster as its administrator.
func clientConfig(dir home.Dir) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", dir.Kubeconfig())
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	return cfg, nil
}
