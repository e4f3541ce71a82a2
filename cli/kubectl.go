package cli

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/controlplane/home"
)

func newCmdKubectl(d Deps) *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [--name NAME] ...",
		Short: "Run the built-in kubectl against a cluster",
		Long: `Run the built-in kubectl against a cluster on this machine. Everything after
"kubectl" is kubectl's own; only a leading --name NAME chooses the cluster.`,
		Example: `  berth kubectl get nodes
  berth kubectl --name l get pods -A`,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			name, rest := splitName(args)
			if err := home.CheckName(name); err != nil {
				return err
			}
			return kubectlRun(d, name, rest)
		},
	}
}

// splitName takes a leading --name off kubectl's arguments.
func splitName(args []string) (name string, rest []string) {
	if len(args) >= 2 && args[0] == "--name" {
		return args[1], args[2:]
	}
	if len(args) >= 1 && strings.HasPrefix(args[0], "--name=") {
		return strings.TrimPrefix(args[0], "--name="), args[1:]
	}
	return defaultName, args
}

func kubectlRun(d Deps, name string, args []string) error {
	if needsCluster(args) {
		dir, err := running(name)
		if err != nil {
			return exitError{code: exitUnknown, err: err}
		}
		if err := os.Setenv("KUBECONFIG", dir.Kubeconfig()); err != nil {
			return failed(err)
		}
	}
	if code := d.Kubectl(args); code != exitOK {
		return exitError{code: code}
	}
	return nil
}

// needsCluster is false for what kubectl answers alone, or asks another cluster.
func needsCluster(args []string) bool {
	if len(args) == 0 {
		return false
	}
	for _, a := range args {
		if a == "--" {
			break
		}
		if a == "-h" || a == "--help" || strings.HasPrefix(a, "--kubeconfig") {
			return false
		}
	}
	switch args[0] {
	case "help", "completion", "options", "kustomize", "plugin":
		return false
	case "version":
		return !slices.Contains(args, "--client")
	}
	return true
}
