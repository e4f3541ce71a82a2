package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/controlplane/home"
)

// connection says which cluster a command talks to: one of this machine by name, or any by kubeconfig.
type connection struct {
	name, kubeconfig, context string

	named bool // --name was written
}

func (c *connection) flags(cmd *cobra.Command) {
	nameFlag(cmd, &c.name, defaultName, "cluster on this machine")
	cmd.Flags().StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of another cluster")
	cmd.Flags().StringVar(&c.context, "context", "", "context in the kubeconfig")
	cmd.MarkFlagsMutuallyExclusive("name", "kubeconfig")
	cmd.MarkFlagsMutuallyExclusive("name", "context")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		c.named = cmd.Flags().Changed("name")
		return home.CheckName(c.name)
	}
}

// explicit says whether the user chose a cluster.
func (c *connection) explicit() bool { return c.named || c.kubeconfig != "" || c.context != "" }

// config is how to reach the cluster: the one chosen; else the default one of this machine if it runs; else
// what kubectl would talk to.
func (c *connection) config() (*rest.Config, error) {
	if c.kubeconfig != "" || c.context != "" {
		return c.foreign()
	}
	dir, err := running(c.name)
	if err == nil {
		return clientConfig(dir)
	}
	if c.named {
		return nil, err
	}
	cfg, other := c.foreign()
	if other != nil {
		return nil, fmt.Errorf("%w; or give --kubeconfig for another cluster", err)
	}
	return cfg, nil
}

func (c *connection) foreign() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("the kubeconfig names no cluster: give --kubeconfig FILE, or --context")
	}
	if err != nil && c.kubeconfig != "" {
		return nil, fmt.Errorf("--kubeconfig %s: %w", c.kubeconfig, err)
	}
	return cfg, err
}
