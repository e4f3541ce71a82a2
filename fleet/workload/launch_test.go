package workload

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWorldOfALaunch(t *testing.T) {
	type want struct {
		World, Rank int
		Meets, Err  string
	}
	for _, c := range []struct {
		args, env string
		gpus      int
		want      want
	}{
		{"python train.py", "", 8, want{Rank: -1}},
		{"python train.py", "WORLD_SIZE=4 RANK=2 MASTER_ADDR=train-0.train", 8, want{World: 4, Rank: 2, Meets: "train-0.train"}},
		{"python train.py", "WORLD_SIZE=4", 1, want{World: 4, Rank: -1}},
		{"python train.py", "WORLD_SIZE=16", 8, want{World: 2, Rank: -1}},
		{"python train.py", "WORLD_SIZE=16 LOCAL_WORLD_SIZE=4", 8, want{World: 4, Rank: -1}},
		{"python train.py", "WORLD_SIZE=8", 8, want{Rank: -1}},
		{"python train.py", "WORLD_SIZE=many RANK=1", 1, want{Rank: -1}},
		{"python train.py", "WORLD_SIZE=2 RANK=2", 1, want{World: 2, Rank: 2, Err: "ValueError: rank 2 is not below the world size, which is 2"}},
		{"torchrun train.py", "WORLD_SIZE=4", 1, want{Rank: -1}},
		{"torchrun --nnodes=2 --nproc_per_node=8 --rdzv_endpoint=head:29500 train.py", "", 8, want{World: 2, Rank: -1, Meets: "head"}},
		{"torchrun --nnodes 2:4 --nproc-per-node gpu --node-rank 1 train.py", "", 8, want{World: 2, Rank: 1}},
		{"torchrun --standalone --nproc_per_node=8 train.py", "PET_NNODES=4", 8, want{Rank: -1}},
		{"torchrun train.py", "PET_NNODES=3 PET_NPROC_PER_NODE=2 PET_NODE_RANK=0 PET_MASTER_ADDR=m", 2, want{World: 3, Rank: 0, Meets: "m"}},
		{"torchrun --nproc_per_node=8 train.py", "", 4, want{Rank: -1, Err: "torch.AcceleratorError: CUDA error: invalid device ordinal (local rank 4, and there are 4 GPUs)"}},
		{"python -m torch.distributed.run --nnodes=2 train.py", "", 1, want{World: 2, Rank: -1}},
		{"accelerate launch --num_machines 2 --machine_rank 1 train.py", "", 1, want{World: 2, Rank: 1}},
		{"deepspeed --num_nodes 3 --num_gpus 8 train.py", "", 8, want{World: 3, Rank: -1}},
		{"python train.py", "JAX_COORDINATOR_ADDRESS=train-0.train:1234 JAX_NUM_PROCESSES=4 JAX_PROCESS_ID=3", 8, want{World: 4, Rank: 3, Meets: "train-0.train"}},
		{"python train.py", "JAX_NUM_PROCESSES=4", 8, want{World: 4, Rank: -1}},
		{"python train.py", "JAX_NUM_PROCESSES=4 JAX_PROCESS_ID=4", 8, want{World: 4, Rank: 4, Err: "ValueError: rank 4 is not below the world size, which is 4"}},
		{"python train.py", "JAX_NUM_PROCESSES=all WORLD_SIZE=2 RANK=1", 8, want{World: 2, Rank: 1}},
		{"./all_reduce_perf", "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1", 8, want{World: 2, Rank: 1}},
		{"./all_reduce_perf", "PMI_SIZE=2 PMI_RANK=0", 8, want{World: 2, Rank: 0}},
		{"mpirun -np 16 python train.py", "", 0, want{Rank: -1}},
		{"ray start --head --block", "RAY_ADDRESS=auto", 8, want{Rank: -1}},
		{"torchrun --nnodes", "MASTER_ADDR=localhost", 1, want{Rank: -1}},
		{"torchrun --nnodes=999999999999999999999 --nproc_per_node=-1 x", "", 1, want{Rank: -1}},
		{"torchrun --nnodes=2000000000", "", 1, want{World: maxWorld, Rank: -1}},
	} {
		env := map[string]string{}
		for _, pair := range strings.Fields(c.env) {
			name, value, _ := strings.Cut(pair, "=")
			env[name] = value
		}
		l := Launch{Args: strings.Fields(c.args), Env: func(name string) string { return env[name] }, GPUs: c.gpus}
		s, err := Spec{Rank: -1}.Joins(l)
		got := want{World: s.World, Rank: s.Rank, Meets: l.Meets()}
		if err != nil {
			got.Err = err.Error()
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s %s: %s", c.env, c.args, diff)
		}
	}
	said := Spec{World: 3, Rank: 1}
	if got, err := said.Joins(Launch{Args: []string{"torchrun", "--nnodes=9"}, Env: func(string) string { return "" }}); err != nil || got != said {
		t.Errorf("an annotated world became %+v, %v", got, err)
	}
}
