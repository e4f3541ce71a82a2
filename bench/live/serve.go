package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berth-dev/berth/controlplane"
	"github.com/berth-dev/berth/controlplane/home"
)

// The identities that the measurements use, as the control plane names them.
const (
	asAdmin = "admin"
	asStock = "scheduler"
	asBerth = "berth-scheduler"
)

// serve is a part: etcd and an API server, and nothing else, with its data in the folder args[0]. It says on
// its standard output that it is ready.
func serve(ctx context.Context, args []string) error {
	dir := home.Dir{Path: args[0]}
	lock, err := dir.Lock()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	log, err := os.Create(dir.Log())
	if err != nil {
		return err
	}
	defer log.Close()
	c, err := controlplane.Start(ctx, controlplane.Options{
		Dir: dir, Listener: listener, Name: "bench", Ephemeral: true, Log: log, NoControllers: true, NoScheduler: true,
	})
	if err != nil {
		return err
	}
	defer c.Stop()
	if err := writeKubeconfigs(c, dir.Path); err != nil {
		return err
	}
	fmt.Println(readyLine)
	select {
	case <-ctx.Done():
		return nil
	case err := <-c.Failed():
		return err
	}
}

func writeKubeconfigs(c *controlplane.Cluster, dir string) error {
	var errs []error
	for _, identity := range []string{asAdmin, asStock, asBerth} {
		cfg, err := c.Config(identity)
		if err != nil {
			return err
		}
		errs = append(errs, clientcmd.WriteToFile(*kubeconfig(cfg), kubeconfigOf(dir, identity)))
	}
	return errors.Join(errs...)
}

func kubeconfigOf(dir, identity string) string { return filepath.Join(dir, identity+".kubeconfig") }

func kubeconfig(c *rest.Config) *clientcmdapi.Config {
	const name = "bench"
	out := clientcmdapi.NewConfig()
	out.Clusters[name] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthority: c.CAFile}
	out.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: c.BearerToken}
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	out.CurrentContext = name
	return out
}
