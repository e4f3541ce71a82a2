package gpu

// catalog is what the fleet can build machines from. Names, memory and limits are what
// nvidia-smi prints on the board under a current data-center driver (R550 and later;
// earlier ones report a little less memory). Idle draw is a typical value; boards differ
// by some watts. Aliases are folded, and belong to one entry only.
var catalog = []entry{
	{Model{
		Name: "T4", Product: "Tesla T4", Family: "turing", Compute: "7.5", MemoryMiB: 15360,
		PowerWatts: 70, IdleWatts: 9, SMClockMHz: 1590, MemClockMHz: 5001, IdleState: "P8",
	}, []string{"nvidia-t4"}},
	{Model{
		Name: "L4", Product: "NVIDIA L4", Family: "ada-lovelace", Compute: "8.9", MemoryMiB: 23034,
		PowerWatts: 72, IdleWatts: 14, SMClockMHz: 2040, MemClockMHz: 6251, IdleState: "P8",
	}, nil},
	{Model{
		Name: "L40S", Product: "NVIDIA L40S", Family: "ada-lovelace", Compute: "8.9", MemoryMiB: 46068,
		PowerWatts: 350, IdleWatts: 33, SMClockMHz: 2520, MemClockMHz: 9001, IdleState: "P8",
	}, nil},
	{Model{
		Name: "A10", Product: "NVIDIA A10", Family: "ampere", Compute: "8.6", MemoryMiB: 23028,
		PowerWatts: 150, IdleWatts: 16, SMClockMHz: 1695, MemClockMHz: 6251, IdleState: "P8",
	}, nil},
	{Model{
		Name: "A10G", Product: "NVIDIA A10G", Family: "ampere", Compute: "8.6", MemoryMiB: 23028,
		PowerWatts: 300, IdleWatts: 16, SMClockMHz: 1710, MemClockMHz: 6251, IdleState: "P8",
	}, nil},
	{Model{
		Name: "A30", Product: "NVIDIA A30", Family: "ampere", Compute: "8.0", MemoryMiB: 24576, MIG: true,
		NVLinks: 4, LinkMBps: 25000,
		PowerWatts: 165, IdleWatts: 29, SMClockMHz: 1440, MemClockMHz: 1215, IdleState: "P0",
	}, nil},
	{Model{
		Name: "A100-SXM4-80GB", Product: "NVIDIA A100-SXM4-80GB", Family: "ampere", Compute: "8.0", MemoryMiB: 81920, MIG: true,
		NVLinks: 12, LinkMBps: 25000,
		PowerWatts: 400, IdleWatts: 62, SMClockMHz: 1410, MemClockMHz: 1593, IdleState: "P0",
	}, []string{"a100", "a100-80gb", "a100-sxm", "a100-sxm4"}},
	{Model{
		Name: "A100-SXM4-40GB", Product: "NVIDIA A100-SXM4-40GB", Family: "ampere", Compute: "8.0", MemoryMiB: 40960, MIG: true,
		NVLinks: 12, LinkMBps: 25000,
		PowerWatts: 400, IdleWatts: 52, SMClockMHz: 1410, MemClockMHz: 1215, IdleState: "P0",
	}, []string{"a100-40gb"}},
	{Model{
		Name: "A100-PCIE-80GB", Product: "NVIDIA A100 80GB PCIe", Family: "ampere", Compute: "8.0", MemoryMiB: 81920, MIG: true,
		NVLinks: 12, LinkMBps: 25000,
		PowerWatts: 300, IdleWatts: 45, SMClockMHz: 1410, MemClockMHz: 1512, IdleState: "P0",
	}, []string{"a100-pcie"}},
	{Model{
		Name: "A100-PCIE-40GB", Product: "NVIDIA A100-PCIE-40GB", Family: "ampere", Compute: "8.0", MemoryMiB: 40960, MIG: true,
		NVLinks: 12, LinkMBps: 25000,
		PowerWatts: 250, IdleWatts: 35, SMClockMHz: 1410, MemClockMHz: 1215, IdleState: "P0",
	}, nil},
	{Model{
		Name: "H100-SXM5-80GB", Product: "NVIDIA H100 80GB HBM3", Family: "hopper", Compute: "9.0", MemoryMiB: 81559, MIG: true,
		NVLinks: 18, LinkMBps: 26562,
		PowerWatts: 700, IdleWatts: 70, SMClockMHz: 1980, MemClockMHz: 2619, IdleState: "P0",
	}, []string{"h100", "h100-80gb", "h100-sxm", "h100-sxm5"}},
	{Model{
		Name: "H100-PCIE-80GB", Product: "NVIDIA H100 PCIe", Family: "hopper", Compute: "9.0", MemoryMiB: 81559, MIG: true,
		NVLinks: 12, LinkMBps: 26562,
		PowerWatts: 350, IdleWatts: 48, SMClockMHz: 1755, MemClockMHz: 1593, IdleState: "P0",
	}, []string{"h100-pcie"}},
	{Model{
		Name: "H100-NVL-94GB", Product: "NVIDIA H100 NVL", Family: "hopper", Compute: "9.0", MemoryMiB: 95830, MIG: true,
		NVLinks: 12, LinkMBps: 26562,
		PowerWatts: 400, IdleWatts: 62, SMClockMHz: 1785, MemClockMHz: 2619, IdleState: "P0",
	}, []string{"h100-nvl"}},
	{Model{
		Name: "H200", Product: "NVIDIA H200", Family: "hopper", Compute: "9.0", MemoryMiB: 143771, MIG: true,
		NVLinks: 18, LinkMBps: 26562,
		PowerWatts: 700, IdleWatts: 76, SMClockMHz: 1980, MemClockMHz: 3201, IdleState: "P0",
	}, []string{"h200-sxm", "h200-141gb"}},
	{Model{
		Name: "B200", Product: "NVIDIA B200", Family: "blackwell", Compute: "10.0", MemoryMiB: 183359, MIG: true,
		NVLinks: 18, LinkMBps: 53125,
		PowerWatts: 1000, IdleWatts: 140, SMClockMHz: 1965, MemClockMHz: 3996, IdleState: "P0",
	}, nil},
	{Model{
		Name: "GB200", Product: "NVIDIA GB200", Family: "blackwell", Compute: "10.0", MemoryMiB: 189471, MIG: true,
		NVLinks: 18, LinkMBps: 53125,
		PowerWatts: 1200, IdleWatts: 165, SMClockMHz: 2062, MemClockMHz: 3996, IdleState: "P0",
	}, nil},
	{Model{
		Name: "V100-SXM2-16GB", Product: "Tesla V100-SXM2-16GB", Family: "volta", Compute: "7.0", MemoryMiB: 16384,
		NVLinks: 6, LinkMBps: 25781,
		PowerWatts: 300, IdleWatts: 42, SMClockMHz: 1530, MemClockMHz: 877, IdleState: "P0",
	}, []string{"v100", "v100-16gb", "v100-sxm2"}},
	{Model{
		Name: "V100-SXM2-32GB", Product: "Tesla V100-SXM2-32GB", Family: "volta", Compute: "7.0", MemoryMiB: 32768,
		NVLinks: 6, LinkMBps: 25781,
		PowerWatts: 300, IdleWatts: 42, SMClockMHz: 1530, MemClockMHz: 877, IdleState: "P0",
	}, []string{"v100-32gb"}},
	{Model{
		Name: "RTX4090", Product: "NVIDIA GeForce RTX 4090", Family: "ada-lovelace", Compute: "8.9", MemoryMiB: 24564,
		PowerWatts: 450, IdleWatts: 20, SMClockMHz: 3105, MemClockMHz: 10501, IdleState: "P8", Consumer: true,
	}, []string{"4090", "rtx-4090", "geforce-rtx-4090"}},
}
