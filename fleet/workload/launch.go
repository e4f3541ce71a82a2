package workload

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Launch is how a program was started: what real trainings read their world from.
type Launch struct {
	Args []string // with the program's name
	Env  func(name string) string
	GPUs int // that the container holds
}

// Joins fills in the world that the launch tells of, where the annotations tell of none. A world counts programs, which
// are pods here: a launcher such as torchrun starts the processes of one pod, so that its number of nodes counts. Without
// a launcher WORLD_SIZE counts ranks: one in each pod where RANK says which, else one for each GPU. The error is what the
// program would fail with.
func (s Spec) Joins(l Launch) (Spec, error) {
	if s.World > 0 {
		return s, nil
	}
	world, rank, err := l.world()
	if err != nil || world < 2 {
		return s, err
	}
	s.World = min(world, maxWorld)
	if s.Rank < 0 {
		s.Rank = rank
	}
	if s.Rank >= s.World {
		return s, fmt.Errorf("ValueError: rank %d is not below the world size, which is %d", s.Rank, s.World)
	}
	return s, nil
}

// Meets is the address at which the ranks of a launch find each other; "": it names none that others could reach.
func (l Launch) Meets() string {
	at := cmp.Or(l.flag("--rdzv_endpoint", "--rdzv-endpoint"), l.flag("--master_addr", "--master-addr", "--main_process_ip"), l.Env("PET_MASTER_ADDR"), l.Env("MASTER_ADDR"),
		l.Env("JAX_COORDINATOR_ADDRESS"))
	host, _, _ := strings.Cut(at, ":")
	if host == "localhost" || strings.HasPrefix(host, "127.") || len(host) > 253 || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return host
}

// world is how many programs work together and which of them this is; -1 where it is not told.
func (l Launch) world() (world, rank int, err error) {
	if l.launcher() {
		return l.nodes()
	}
	for _, names := range processes {
		if n := numberOf(l.Env(names[0])); n > 0 {
			return n, max(-1, numberOf(l.Env(names[1]))), nil
		}
	}
	world = numberOf(l.Env("WORLD_SIZE"))
	rank = -1
	if text := l.Env("RANK"); text != "" {
		rank = max(-1, numberOf(text))
		return world, rank, nil
	}
	each := max(1, cmp.Or(max(0, numberOf(l.Env("LOCAL_WORLD_SIZE"))), l.GPUs))
	return (max(0, world) + each - 1) / each, rank, nil
}

// processes are variables that name the number of processes and which of them this is: of JAX, Open MPI and the launchers that speak
// PMI. mpirun starts programs through ssh on the hosts of its list, of which a pod here knows nothing: it works alone.
var processes = [][2]string{
	{"JAX_NUM_PROCESSES", "JAX_PROCESS_ID"}, {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, {"PMI_SIZE", "PMI_RANK"},
}

// launcher says whether the program starts others: one process for each GPU of its pod.
func (l Launch) launcher() bool {
	if len(l.Args) == 0 {
		return false
	}
	switch path.Base(l.Args[0]) {
	case "torchrun", "deepspeed", "accelerate":
		return true
	}
	i := slices.Index(l.Args, "-m")
	return i >= 0 && i+1 < len(l.Args) && strings.HasPrefix(l.Args[i+1], "torch.distributed.")
}

// nodes reads a launcher's flags, and the variables that torchrun takes for them.
func (l Launch) nodes() (world, rank int, err error) {
	each := cmp.Or(l.flag("--nproc_per_node", "--nproc-per-node", "--num_gpus"), l.Env("PET_NPROC_PER_NODE"))
	if n := numberOf(each); n > l.GPUs && l.GPUs > 0 {
		return 0, -1, fmt.Errorf("torch.AcceleratorError: CUDA error: invalid device ordinal (local rank %d, and there are %d GPUs)", l.GPUs, l.GPUs)
	}
	if slices.Contains(l.Args, "--standalone") {
		return 1, 0, nil
	}
	least, _, _ := strings.Cut(cmp.Or(l.flag("--nnodes", "--num_nodes", "--num-nodes", "--num_machines"), l.Env("PET_NNODES")), ":") // of 2:4
	rank = -1
	if text := cmp.Or(l.flag("--node_rank", "--node-rank", "--machine_rank"), l.Env("PET_NODE_RANK")); text != "" {
		rank = max(-1, numberOf(text))
	}
	return numberOf(least), rank, nil
}

// flag is the value of the first of the flags that was given, as --flag=value or --flag value.
func (l Launch) flag(names ...string) string {
	for i, arg := range l.Args {
		for _, name := range names {
			if value, ok := strings.CutPrefix(arg, name+"="); ok {
				return value
			}
			if arg == name && i+1 < len(l.Args) {
				return l.Args[i+1]
			}
		}
	}
	return ""
}

// numberOf reads a whole number; -1 where it is none.
func numberOf(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}
