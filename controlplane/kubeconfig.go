package controlplane

import (
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berth-dev/berth/controlplane/home"
)

// writeKubeconfig writes how the identity reaches this cluster, mode 0600. The context,
// the cluster and the user in it are all called name.
func (c *Cluster) writeKubeconfig(path, name, identity string) error {
	ca, err := os.ReadFile(c.keys.file("ca.crt"))
	if err != nil {
		return err
	}
	token, err := c.keys.token(identity)
	if err != nil {
		return err
	}
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[name] = &clientcmdapi.Cluster{Server: c.server, CertificateAuthorityData: ca}
	cfg.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	cfg.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	cfg.CurrentContext = name
	b, err := clientcmd.Write(*cfg)
	if err != nil {
		return err
	}
	return home.WriteFile(path, b)
}

// componentConfig is the kubeconfig of a component, for this run.
func (c *Cluster) componentConfig(component string) string {
	return filepath.Join(c.dir.Run(), component+".kubeconfig")
}
