// Package nvsmi reads what nvidia-smi printed on a node: the XML of -q -x, the
// CSV of --query-gpu and --query-compute-apps, the matrix of topo -m, and the
// lists of mig -lgi and -L.
//
// What nvidia-smi prints as N/A or Not Supported is missing, never zero. Processes that only draw are left out. A field
// that cannot be read is a problem with its path, and the rest is still returned: every function returns what it could
// read together with an error that names all problems. A text of another kind is an error alone.
//
// The forms are those of the drivers from 450 to 580; the XML, CSV and text of
// an H100 and an H200 with driver 580.159.04 stand in testdata; a test with the
// tag gpu holds them against NVML on the machine that it runs on. Serial
// numbers and command lines are never kept.
package nvsmi
