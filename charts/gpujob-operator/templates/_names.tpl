{{/* The chart's name in labels. */}}
{{- define "gpujob-operator.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of the release's objects: the release's own name when it contains the chart's. */}}
{{- define "gpujob-operator.fullname" -}}
{{- $name := include "gpujob-operator.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The name of the operator's ServiceAccount. */}}
{{- define "gpujob-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "gpujob-operator.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* The labels that select the operator's pods; they never change between versions. */}}
{{- define "gpujob-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gpujob-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The labels of every object. */}}
{{- define "gpujob-operator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "gpujob-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: gpujob
{{- end -}}

{{/* The operator's image: by digest where one is given, else by tag. There is no default repository, since no image is published. */}}
{{- define "gpujob-operator.image" -}}
{{- if not .Values.image.repository -}}
{{- fail "image.repository is empty and no image is published: build images/operator, push it to your registry, and set image.repository to its name there (replicaCount=0 needs no image)" -}}
{{- end -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* Something when an object of monitoring.coreos.com is to be made: true, or auto and the cluster has that API. */}}
{{- define "gpujob-operator.monitors" -}}
{{- $root := index . 0 -}}
{{- $asked := index . 1 | toString -}}
{{- if or (eq $asked "true") (and (eq $asked "auto") ($root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) -}}
yes
{{- end -}}
{{- end -}}

{{/* What a reporter in a pod serves, without gpujob_: the table of docs/telemetry.md. */}}
{{- define "gpujob-operator.reporterNames" -}}
up
world_size
ranks_reporting
attempt_info
steps_total
skipped_steps_total
samples_total
tokens_total
step_duration_seconds(_sum|_count)?
data_wait_seconds_total
data_wait_ratio
last_step_timestamp_seconds
first_step_timestamp_seconds
process_start_timestamp_seconds
progress_ratio
remaining_seconds
progress_timestamp_seconds
training_metric
checkpoint_step
checkpoint_timestamp_seconds
device_memory_allocated_bytes
device_memory_reserved_bytes
device_memory_peak_bytes
device_memory_reserved_peak_bytes
device_memory_used_bytes
device_memory_total_bytes
on_device
process_info
reporter_failures_total
{{- end -}}

{{/* The runner's ConfigMaps of earlier versions, newest first, at most 16: those that the role in the cluster names. Without a cluster
(helm template) none is known. */}}
{{- define "gpujob-operator.earlierRunners" -}}
{{- $own := .Files.Get "files/runner-name" | trim }}
{{- $names := list }}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" (include "gpujob-operator.fullname" .)).rules }}
{{- range .resourceNames }}
{{- if and (regexMatch "^gpujob-runner-[0-9a-f]{10}$" .) (ne . $own) }}
{{- $names = append $names . }}
{{- end }}
{{- end }}
{{- end }}
{{- range $at, $name := uniq $names }}
{{- if lt $at 16 }}{{ if $at }}, {{ end }}{{ $name }}{{ end }}
{{- end }}
{{- end }}
