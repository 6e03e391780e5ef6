{{/* What values.schema.json cannot say in a sentence with its remedy. Renders nothing; fails at the first value that is wrong. */}}
{{- define "gpujob-operator.checks" -}}
{{- $values := .Values -}}
{{- range $path, $value := dict
  "fullnameOverride" $values.fullnameOverride
  "global.imageRegistry" $values.global.imageRegistry
  "image.digest" $values.image.digest
  "image.registry" $values.image.registry
  "image.repository" $values.image.repository
  "image.tag" $values.image.tag
  "monitoring.dashboards.namespace" $values.monitoring.dashboards.namespace
  "nameOverride" $values.nameOverride
  "priorityClassName" $values.priorityClassName
  "serviceAccount.name" $values.serviceAccount.name -}}
{{- include "gpujob-operator.checkText" (list $path $value) -}}
{{- end -}}
{{- $labels := dict
  "commonLabels" $values.commonLabels
  "monitoring.dashboards.labels" $values.monitoring.dashboards.labels
  "monitoring.podMonitor.labels" $values.monitoring.podMonitor.labels
  "monitoring.prometheusRule.labels" $values.monitoring.prometheusRule.labels
  "monitoring.serviceMonitor.labels" $values.monitoring.serviceMonitor.labels
  "podLabels" $values.podLabels -}}
{{- $others := dict
  "monitoring.dashboards.annotations" $values.monitoring.dashboards.annotations
  "nodeSelector" $values.nodeSelector
  "podAnnotations" $values.podAnnotations
  "serviceAccount.annotations" $values.serviceAccount.annotations -}}
{{- range $path, $texts := merge $others $labels -}}
{{- range $key, $value := $texts -}}
{{- include "gpujob-operator.checkText" (list (printf "%s.%s" $path $key) $value) -}}
{{- end -}}
{{- end -}}
{{- range $path, $texts := $labels -}}
{{- range $key, $_ := $texts -}}
{{- if has $key (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "app.kubernetes.io/part-of" "helm.sh/chart") -}}
{{- fail (printf "%s has the key %s, which the chart sets: choose another key" $path $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range concat $values.imagePullSecrets $values.global.imagePullSecrets -}}
{{- include "gpujob-operator.checkText" (list "imagePullSecrets[].name" .name) -}}
{{- end -}}
{{- $set := list -}}
{{- range include "gpujob-operator.environment" . | fromYamlArray -}}
{{- $set = append $set .name -}}
{{- end -}}
{{- range $values.extraEnv -}}
{{- include "gpujob-operator.checkText" (list (printf "extraEnv %s" .name) .value) -}}
{{- if has .name $set -}}
{{- fail (printf "extraEnv sets %s, which is set already: leave it out of extraEnv" .name) -}}
{{- end -}}
{{- $set = append $set .name -}}
{{- end -}}
{{- end -}}

{{/* Fails unless a value is text or absent: (list path value). --set makes numbers and booleans of what looks like them, and Helm
loses digits of a number of a values file (1.10 is 1.1 there). */}}
{{- define "gpujob-operator.checkText" -}}
{{- $value := index . 1 -}}
{{- if not (or (kindIs "string" $value) (kindIs "invalid" $value)) -}}
{{- fail (printf "%s is a %s, and must be text: write --set-string in place of --set, or put it in quotes in a values file" (index . 0) (kindIs "bool" $value | ternary "boolean" "number")) -}}
{{- end -}}
{{- end -}}
