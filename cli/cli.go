// Package cli is Berth's command line: one file per command. It parses, calls, prints.
//
// It compiles neither Kubernetes nor kubectl, so that it builds and tests in seconds:
// cmd/berth hands both in as Deps.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/fleet"
)

// Exit codes of every command.
const (
	exitOK      = 0
	exitFailed  = 1 // it did not work, or the answer is no
	exitUsage   = 2 // wrong usage
	exitUnknown = 3 // could not look
)

// Streams are what a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Deps are the heavy parts, which only cmd/berth compiles.
type Deps struct {
	// StartControlPlane returns when the API server is ready.
	StartControlPlane func(context.Context, ControlPlaneOptions) (ControlPlane, error)
	// Kubectl runs kubectl on the process's own streams and returns its exit status.
	Kubectl func(args []string) int
	// Kubernetes is the version that StartControlPlane runs.
	Kubernetes string
	// Program is how the user called this program, for commands that are printed to be run.
	Program string
	// Lab makes the commands that need the parts above. It is the function Lab or nil: a program that does not name it
	// does not link the fleet either.
	Lab func(Streams, Deps) []*cobra.Command
}

// ControlPlane is a running control plane.
type ControlPlane interface {
	Config(identity string) (*rest.Config, error)
	KubeletTLS() (fleet.KubeletTLS, error)
	Failed() <-chan error
	Stop()
}

// Main runs the command in args (without the program's name) and returns its exit code.
func Main(args []string, s Streams, d Deps) int {
	s.Out, s.Err = &printable{w: s.Out}, &printable{w: s.Err}
	root := newRoot(s, d)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	var exit exitError
	if !errors.As(err, &exit) {
		exit = exitError{code: exitUsage, err: err}
	}
	if exit.err != nil {
		fmt.Fprintf(s.Err, "error: %v\n", exit.err)
	}
	return exit.code
}

// exitError is an error that has chosen its exit code. Errors without one come from
// parsing the command line and mean wrong usage.
type exitError struct {
	code int
	err  error // nil: everything is said already
}

func (e exitError) Error() string { return fmt.Sprint(e.err) }
func (e exitError) Unwrap() error { return e.err }

func failed(err error) error {
	var coded exitError
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return exitError{code: exitFailed, err: err}
}

func newRoot(s Streams, d Deps) *cobra.Command {
	root := &cobra.Command{
		Use:   "berth",
		Short: "A real Kubernetes with a simulated GPU fleet, in one binary",
		Long: `Berth schedules GPU work on Kubernetes, and explains every decision.

Start with:  berth up
Then:        berth kubectl get nodes`,
		Annotations:   map[string]string{programAnnotation: d.Program, cobra.CommandDisplayNameAnnotation: displayName(d.Program)},
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,

		SuggestionsMinimumDistance: suggestDistance,
	}
	// Not cobra's own flag: the template for its text would have the linker keep every method of every type, 20 MB of them.
	version := root.Flags().BoolP("version", "v", false, "version for "+displayName(d.Program))
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			_, err := fmt.Fprint(s.Out, versionLine(d))
			return err
		}
		return cmd.Help()
	}
	root.SetFlagErrorFunc(flagError)
	if d.Lab != nil {
		root.AddCommand(d.Lab(s, d)...)
	} else {
		root.Short, root.Long = "Ask a cluster why GPU work waits, and install the scheduler that answers", smallHelp
	}
	root.AddCommand(
		newCmdWhy(s),
		newCmdDoctor(s),
		newCmdCapacity(s),
		newCmdCost(s),
		newCmdCheck(s),
		newCmdWhatif(s),
		newCmdDrain(s),
		newCmdAdopt(s),
		newCmdEvidence(s),
		newCmdJobs(s),
		newCmdQueue(s),
		newCmdHold(s),
		newCmdRelease(s),
		newCmdRequeue(s),
		newCmdFreeze(s),
		newCmdMan(),
		newCmdThaw(s),
		newCmdReplay(s),
		newCmdUI(s),
		newCmdScheduler(s),
		newCmdInstall(s),
		newCmdUninstall(s),
		newCmdBackup(s),
		newCmdRestore(s),
		newCmdVersion(s, d),
	)
	return root
}

// Lab are the commands of clusters on this machine.
func Lab(s Streams, d Deps) []*cobra.Command {
	return []*cobra.Command{newCmdUp(s, d), newCmdDown(s), newCmdStatus(s), newCmdKubectl(d), newCmdFleet(s), newCmdDrill(s)}
}

const smallHelp = `Berth puts GPU work on GPU machines under Kubernetes, and can always say why it did or did not.

Start with:  kubectl berth why -A
Then:        kubectl berth doctor`

// displayName is how the program is called in help: as a plugin of kubectl where its file is called kubectl-berth.
func displayName(program string) string {
	if filepath.Base(program) == "kubectl-berth" {
		return "kubectl berth"
	}
	return "berth"
}

func newCmdVersion(s Streams, d Deps) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of Berth and of the Kubernetes inside it, if any",
		Args:  cobra.NoArgs,
		Run: func(*cobra.Command, []string) {
			fmt.Fprint(s.Out, versionLine(d))
		},
	}
}

func versionLine(d Deps) string {
	if d.Kubernetes == "" {
		return fmt.Sprintf("berth %s\n", Version)
	}
	return fmt.Sprintf("berth %s, Kubernetes %s\n", Version, d.Kubernetes)
}

// Version is Berth's own.
const Version = "v0.1.0-dev"

// isTerminal says whether a person is at the other end of a stream.
func isTerminal(stream any) bool {
	if w, ok := stream.(io.Writer); ok {
		stream = raw(w)
	}
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}
