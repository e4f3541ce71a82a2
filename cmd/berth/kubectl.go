package main

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // sign-in plugins, for who points it elsewhere
	componentcli "k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

// kubectl becomes kubectl, with the arguments after that word: it reads os.Args, writes to
// the process's own streams, and where it fails ends the process with its own exit status.
func kubectl(args []string) int {
	os.Args = append([]string{"kubectl"}, args...)
	logs.GlogSetter(cmd.GetLogVerbosity(os.Args))
	util.CheckErr(componentcli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()))
	return 0
}
