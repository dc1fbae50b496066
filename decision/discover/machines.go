package discover

import "strings"

// machines are cloud machines by the beginning of their type, with the GPU that their vendor's page gives them (AWS
// EC2 accelerated instances, Google accelerator-optimised machines, Azure ND and NC series).
var machines = []struct{ prefix, gpu string }{
	{"p3.", "Tesla V100-SXM2-16GB"}, {"p3dn.", "Tesla V100-SXM2-32GB"}, {"p4d.", "A100-SXM4-40GB"},
	{"p4de.", "A100-SXM4-80GB"}, {"p5.", "H100 80GB HBM3"},
	{"p5e.", "H200"}, {"p5en.", "H200"}, {"p6-b200.", "B200"}, {"g4dn.", "Tesla T4"}, {"g5.", "A10G"}, {"g6.", "L4"},
	{"gr6.", "L4"}, {"g6e.", "L40S"},
	{"a2-highgpu-", "A100-SXM4-40GB"}, {"a2-megagpu-", "A100-SXM4-40GB"}, {"a2-ultragpu-", "A100-SXM4-80GB"},
	{"a3-highgpu-", "H100 80GB HBM3"}, {"a3-megagpu-", "H100 80GB HBM3"},
	{"a3-ultragpu-", "H200"}, {"a4-highgpu-", "B200"}, {"g2-standard-", "L4"},
	{"Standard_ND96asr_v4", "A100-SXM4-40GB"}, {"Standard_ND96amsr_A100_v4", "A100-SXM4-80GB"},
	{"Standard_NC24ads_A100_v4", "A100 80GB PCIe"}, {"Standard_NC48ads_A100_v4", "A100 80GB PCIe"},
	{"Standard_NC96ads_A100_v4", "A100 80GB PCIe"}, {"Standard_ND96isr_H100_v5", "H100 80GB HBM3"},
	{"Standard_NC40ads_H100_v5", "H100 NVL"}, {"Standard_NC80adis_H100_v5", "H100 NVL"},
	{"Standard_ND96isr_H200_v5", "H200"}, {"Standard_NC4as_T4_v3", "Tesla T4"}, {"Standard_NC8as_T4_v3", "Tesla T4"},
	{"Standard_NC16as_T4_v3", "Tesla T4"}, {"Standard_NC64as_T4_v3", "Tesla T4"},
	{"Standard_NC6s_v3", "Tesla V100-PCIE-16GB"}, {"Standard_NC12s_v3", "Tesla V100-PCIE-16GB"},
	{"Standard_NC24s_v3", "Tesla V100-PCIE-16GB"}, {"Standard_NC24rs_v3", "Tesla V100-PCIE-16GB"},
	{"Standard_ND40rs_v2", "Tesla V100-SXM2-32GB"}, {"Standard_NV36ads_A10_v5", "A10"},
	{"Standard_NV72ads_A10_v5", "A10"}, {"Standard_ND128isr_NDR_GB200_v6", "GB200"},
}

// instanceModel is the GPU of a cloud's machine type.
func instanceModel(machine string) (string, bool) {
	for _, m := range machines {
		if machine != "" && strings.HasPrefix(machine, m.prefix) {
			return m.gpu, true
		}
	}
	return "", false
}
